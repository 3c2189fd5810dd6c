//! What the policies say, as simply as it can be said: a few maps, the statements that bring a database from one state to
//! another, and what each device gets.

use std::collections::BTreeMap;

/// Addresses that are listed or not; the load asks for all of them.
pub const MACS: u16 = 40;
/// Devices with a certificate. It is one certificate: they differ in NAS-Port, which their policies look at.
pub const LAPTOPS: u16 = 10;

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Device {
    Mac(u16),
    Laptop(u16),
}

/// What it gets: the VLAN, or a reject.
pub type Verdict = Option<u16>;

/// The policies, at one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// The two policies for addresses, `one` and `two`: their VLANs, and which is tried first.
    vlans: [u16; 2],
    first: usize,
    /// Each listed address, and the VLAN that is its own.
    macs: BTreeMap<u16, Option<u16>>,
    /// The policy of each laptop that has one: whether it accepts, and the VLAN.
    laptops: BTreeMap<u16, (bool, u16)>,
}

/// One edit; each kind has a way there and a way back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit {
    /// An address is listed, or no longer.
    List(u16, bool),
    /// A listed address has a VLAN of its own, or no longer.
    OwnVlan(u16, Option<u16>),
    /// A policy's response changes.
    PolicyVlan(usize, u16),
    /// A policy moves to the front.
    First(usize),
    /// A laptop's policy accepts, or rejects.
    Accepts(u16, bool),
    /// A laptop's policy is made, or deleted with all that belongs to it.
    Exists(u16, bool),
}

/// Of [`Edit`], for counting.
pub const KINDS: [&str; 6] = ["list", "own vlan", "policy vlan", "priority", "action", "policy"];

impl State {
    /// What [`document`] says.
    pub fn initial() -> State {
        State {
            vlans: [101, 102],
            first: 0,
            macs: (0..MACS).step_by(2).map(|mac| (mac, None)).collect(),
            laptops: (0..LAPTOPS).map(|laptop| (laptop, (true, 200 + laptop))).collect(),
        }
    }

    /// What a device gets.
    pub fn verdict(&self, device: Device) -> Verdict {
        match device {
            Device::Mac(mac) => self.macs.get(&mac).map(|own| own.unwrap_or(self.vlans[self.first])),
            Device::Laptop(laptop) => self
                .laptops
                .get(&laptop)
                .and_then(|(accepts, vlan)| accepts.then_some(*vlan)),
        }
    }

    /// An edit of this kind that changes something. `turn` counts, so that edits come in pairs, there and back.
    pub fn next(&self, kind: usize, turn: u16) -> Edit {
        let (mac, laptop) = (turn / 2 % MACS, turn / 2 % LAPTOPS);
        match kind {
            0 => Edit::List(mac, !self.macs.contains_key(&mac)),
            1 => {
                let listed: Vec<_> = self.macs.iter().collect();
                // listing comes and goes as well, but never leaves the list empty
                let (mac, own) = listed[usize::from(turn / 2) % listed.len()];
                Edit::OwnVlan(*mac, own.is_none().then_some(300 + mac))
            }
            2 => Edit::PolicyVlan(
                self.first,
                if self.vlans[self.first] < 150 {
                    150 + turn % 50
                } else {
                    101 + turn % 40
                },
            ),
            3 => Edit::First(1 - self.first),
            4 => {
                let present: Vec<_> = self.laptops.iter().collect();
                let (laptop, (accepts, _)) = present[usize::from(turn / 2) % present.len()];
                Edit::Accepts(*laptop, !accepts)
            }
            _ => Edit::Exists(laptop, !self.laptops.contains_key(&laptop)),
        }
    }

    /// This state after an edit, and the statements that lead there: the same for SQLite and PostgreSQL.
    pub fn after(&self, edit: Edit) -> (State, Vec<String>) {
        let mut state = self.clone();
        let statements = match edit {
            Edit::List(mac, true) => {
                state.macs.insert(mac, None);
                vec![format!(
                    "INSERT INTO mac_authentication_bypasses (site_id, address) SELECT id, '{}' FROM sites",
                    address(mac)
                )]
            }
            Edit::List(mac, false) => {
                state.macs.remove(&mac);
                vec![format!(
                    "DELETE FROM mac_authentication_bypasses WHERE address = '{}'",
                    address(mac)
                )]
            }
            Edit::OwnVlan(mac, own) => {
                state.macs.insert(mac, own);
                let of = format!("FROM mac_authentication_bypasses WHERE address = '{}'", address(mac));
                match own {
                    Some(vlan) => vec![format!(
                        "INSERT INTO responses (mac_authentication_bypass_id, response_attribute, value)
                         SELECT id, 'Tunnel-Private-Group-Id', '{vlan}' {of}"
                    )],
                    None => vec![format!(
                        "DELETE FROM responses WHERE mac_authentication_bypass_id IN (SELECT id {of})"
                    )],
                }
            }
            Edit::PolicyVlan(policy, vlan) => {
                state.vlans[policy] = vlan;
                vec![format!(
                    "UPDATE responses SET value = '{vlan}' WHERE response_attribute = 'Tunnel-Private-Group-Id'
                     AND policy_id = (SELECT id FROM policies WHERE name = '{}')",
                    ["one", "two"][policy]
                )]
            }
            Edit::First(policy) => {
                state.first = policy;
                let place = if policy == 1 { 5 } else { 20 };
                vec![format!(
                    "UPDATE site_policies SET priority = {place}
                     WHERE policy_id = (SELECT id FROM policies WHERE name = 'two')"
                )]
            }
            Edit::Accepts(laptop, accepts) => {
                let vlan = self.laptops[&laptop].1;
                state.laptops.insert(laptop, (accepts, vlan));
                let action = if accepts { "accept" } else { "reject" };
                vec![format!(
                    "UPDATE policies SET action = '{action}' WHERE name = 'laptop {laptop}'"
                )]
            }
            Edit::Exists(laptop, false) => {
                state.laptops.remove(&laptop);
                let name = format!("name = 'laptop {laptop}'");
                vec![
                    format!("DELETE FROM site_policies WHERE policy_id = (SELECT id FROM policies WHERE {name})"),
                    format!("DELETE FROM policies WHERE {name}"),
                ]
            }
            Edit::Exists(laptop, true) => {
                let vlan = 200 + laptop;
                state.laptops.insert(laptop, (true, vlan));
                let of = format!("FROM policies WHERE name = 'laptop {laptop}'");
                let response = |position: u16, attribute: &str, value: &str| {
                    format!(
                        "INSERT INTO responses (policy_id, response_attribute, value, position)
                         SELECT id, '{attribute}', '{value}', {position} {of}"
                    )
                };
                vec![
                    format!(
                        "INSERT INTO policies (name, action, methods) VALUES ('laptop {laptop}', 'accept', 'eap-tls')"
                    ),
                    format!(
                        "INSERT INTO rules (policy_id, request_attribute, operator, value)
                         SELECT id, 'NAS-Port', 'equals', '{laptop}' {of}"
                    ),
                    response(0, "Tunnel-Type", "VLAN"),
                    response(1, "Tunnel-Medium-Type", "IEEE-802"),
                    response(2, "Tunnel-Private-Group-Id", &vlan.to_string()),
                    format!(
                        "INSERT INTO site_policies (site_id, policy_id, priority)
                         SELECT sites.id, policies.id, {} FROM sites, policies WHERE policies.name = 'laptop {laptop}'",
                        100 + laptop
                    ),
                ]
            }
        };
        (state, statements)
    }
}

/// As it stands in Calling-Station-Id.
pub fn address(mac: u16) -> String {
    let [high, low] = mac.to_be_bytes();
    format!("02-00-00-00-{high:02x}-{low:02x}")
}

/// The policy set of [`State::initial`].
pub fn document() -> String {
    use std::fmt::Write as _;

    let state = State::initial();
    let vlan = |vlan: u16| {
        format!(
            r#"responses = ["Tunnel-Type = VLAN", "Tunnel-Medium-Type = IEEE-802", "Tunnel-Private-Group-Id = {vlan}"]"#
        )
    };
    let mut text = String::new();
    let mut places = vec![];
    for (index, name) in ["one", "two"].iter().enumerate() {
        let responses = vlan(state.vlans[index]);
        let _ = writeln!(
            text,
            "[[policy]]\nname = \"{name}\"\nmethods = [\"mab\"]\nrules = [\"NAS-Port-Type == Ethernet\"]\n{responses}"
        );
        places.push(format!("{{ policy = \"{name}\", priority = {} }}", 10 * (index + 1)));
    }
    for (laptop, (_, own)) in &state.laptops {
        let responses = vlan(*own);
        let _ = writeln!(
            text,
            "[[policy]]\nname = \"laptop {laptop}\"\nrules = [\"NAS-Port == {laptop}\"]\n{responses}"
        );
        places.push(format!(
            "{{ policy = \"laptop {laptop}\", priority = {} }}",
            100 + laptop
        ));
    }
    let _ = writeln!(
        text,
        "[[policy]]\nname = \"nobody else\"\nfallback = true\naction = \"reject\"\n\
         [[site]]\nname = \"Leeds\"\ntag = \"leeds\"\nfallback = \"nobody else\"\npolicies = [{}]\n\
         [[site.client]]\nnetwork = \"127.0.0.0/8\"\nsecret = \"testing123\"",
        places.join(", ")
    );
    for mac in state.macs.keys() {
        let _ = writeln!(text, "[[site.mac]]\naddress = \"{}\"", address(*mac));
    }
    text
}
