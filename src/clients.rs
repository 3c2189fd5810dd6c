//! RADIUS clients: from a source address to the client, by longest prefix (RFC 2865 section 3: the source address, and
//! nothing in the packet, picks the shared secret).
//!
//! Networks may nest. A network that is known but not usable (a broken row, two rows for one network) *shadows* the wider
//! ones: its packets are dropped rather than checked against a secret that was meant for others. UDP and RadSec clients are
//! two tables, and never answer for each other.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use ipnet::{IpNet, Ipv4Net};

pub use crate::eap::tls::TlsVersion;
use crate::mab::{MabIdentity, MabPassword};
use crate::radius::crypto::Secret;

/// A site's key in the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SiteId(pub i64);

/// Something of each site, looked up by every request. The keys are the database's own: nobody can choose them to collide.
pub type BySite<T> = std::collections::HashMap<SiteId, T, foldhash::fast::RandomState>;

/// A switch, access point or controller, or a network of them.
#[derive(Debug, PartialEq, Eq)]
pub struct Client {
    /// Its key in the database.
    pub id: i64,
    /// The site it stands in.
    pub site: SiteId,
    /// From where its packets come.
    pub network: IpNet,
    /// Shared by all clients that have the same.
    pub secret: Arc<Secret>,
    /// Over TLS rather than UDP.
    pub radsec: bool,
    /// Requests without Message-Authenticator are dropped (CVE-2024-3596).
    pub require_message_authenticator: bool,
    /// Requests with Proxy-State and without Message-Authenticator are dropped (CVE-2024-3596).
    pub limit_proxy_state: bool,
    /// The oldest TLS version for its supplicants; none: the configuration's.
    pub min_tls: Option<TlsVersion>,
    /// The newest TLS version for its supplicants; none: the configuration's.
    pub max_tls: Option<TlsVersion>,
    /// Octets of an EAP packet; none: the configuration's.
    pub fragment_size: Option<u16>,
    /// What it sends as the password of MAC authentication.
    pub mab_password: MabPassword,
    /// Where it sends the MAC address.
    pub mab_identity: MabIdentity,
}

/// One network of the table.
#[derive(Clone, Debug)]
pub enum Entry {
    /// A client.
    Client(Arc<Client>),
    /// A network whose packets are dropped, whatever wider network there is.
    Shadow {
        /// The network.
        network: IpNet,
        /// Of which kind.
        radsec: bool,
    },
}

/// Two clients of one kind name the same network. Neither is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The network, canonical.
    pub network: IpNet,
    /// Of which kind.
    pub radsec: bool,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.radsec { "radsec" } else { "udp" };
        write!(
            f,
            "two {kind} clients have the network `{}`, and neither is answered",
            self.network
        )
    }
}

/// All clients. Built once, then only read.
#[derive(Debug, Default)]
pub struct Clients {
    udp: Table,
    radsec: Table,
    usable: usize,
}

impl Clients {
    /// Builds the table. Networks that are there twice become shadows and are returned.
    pub fn new(entries: impl IntoIterator<Item = Entry>) -> (Clients, Vec<Conflict>) {
        let mut clients = Clients::default();
        for entry in entries {
            let (network, radsec, client) = match entry {
                Entry::Client(client) => (client.network, client.radsec, Some(client)),
                Entry::Shadow { network, radsec } => (network, radsec, None),
            };
            clients.table_mut(radsec).push(network, client);
        }
        let mut conflicts = Vec::new();
        for radsec in [false, true] {
            let found = clients.table_mut(radsec).finish();
            conflicts.extend(found.into_iter().map(|network| Conflict { network, radsec }));
        }
        clients.usable = clients.udp.usable() + clients.radsec.usable();
        (clients, conflicts)
    }

    /// The client whose network is the longest prefix of `address`; none where there is none, or where it is a shadow.
    /// An IPv4 address that came over an IPv6 socket (`::ffff:192.0.2.1`) is the IPv4 address.
    pub fn lookup(&self, address: IpAddr, radsec: bool) -> Option<&Arc<Client>> {
        let table = if radsec { &self.radsec } else { &self.udp };
        match address.to_canonical() {
            IpAddr::V4(address) => table.v4.lookup(address.to_bits()),
            IpAddr::V6(address) => table.v6.lookup(address.to_bits()),
        }
    }

    /// The clients that can be answered over UDP.
    pub fn udp(&self) -> impl Iterator<Item = &Arc<Client>> {
        self.udp.v4.iter().chain(self.udp.v6.iter())
    }

    /// How many clients can be answered.
    pub fn len(&self) -> usize {
        self.usable
    }

    /// Whether none can be.
    pub fn is_empty(&self) -> bool {
        self.usable == 0
    }

    fn table_mut(&mut self, radsec: bool) -> &mut Table {
        if radsec { &mut self.radsec } else { &mut self.udp }
    }
}

/// A network as it is compared: host bits zero, and IPv4 networks written as IPv6 (`::ffff:10.0.0.0/104`) as IPv4.
pub fn canonical(network: IpNet) -> IpNet {
    let network = network.trunc();
    if let IpNet::V6(v6) = network
        && let Some(length) = v6.prefix_len().checked_sub(96)
        && let Some(address) = v6.addr().to_ipv4_mapped()
        && let Ok(v4) = Ipv4Net::new(address, length)
    {
        return v4.into();
    }
    network
}

/// Reads a network or a single address, canonical.
///
/// # Errors
/// A sentence with what was to be written.
pub fn parse_network(text: &str) -> Result<IpNet, String> {
    let network = text
        .parse::<IpNet>()
        .or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
    network
        .map(canonical)
        .map_err(|_| format!("`{text}` is no network; hint: write `10.1.0.0/16`, `192.0.2.7` or `2001:db8::/32`"))
}

#[derive(Debug, Default)]
struct Table {
    v4: Family<u32>,
    v6: Family<u128>,
}

impl Table {
    fn push(&mut self, network: IpNet, client: Option<Arc<Client>>) {
        match canonical(network) {
            IpNet::V4(network) => self.v4.push(network.prefix_len(), network.addr().to_bits(), client),
            IpNet::V6(network) => self.v6.push(network.prefix_len(), network.addr().to_bits(), client),
        }
    }

    fn finish(&mut self) -> Vec<IpNet> {
        let v4 = self
            .v4
            .finish()
            .into_iter()
            .map(|(bits, length)| (IpAddr::from(Ipv4Addr::from_bits(bits)), length));
        let v6 = self
            .v6
            .finish()
            .into_iter()
            .map(|(bits, length)| (IpAddr::from(Ipv6Addr::from_bits(bits)), length));
        v4.chain(v6)
            .filter_map(|(address, length)| IpNet::new(address, length).ok())
            .collect()
    }

    fn usable(&self) -> usize {
        self.v4.usable() + self.v6.usable()
    }
}

/// One address family: for each prefix length that is in use, longest first, the sorted networks. Real sets have a
/// handful of lengths, so a look-up is a handful of binary searches.
#[derive(Debug, Default)]
struct Family<A> {
    lengths: Vec<Networks<A>>,
}

/// The networks of one prefix length. The addresses stand by themselves: a search goes through little memory.
#[derive(Debug)]
struct Networks<A> {
    length: u8,
    addresses: Vec<A>,
    /// Beside each address who is answered there; none: a shadow.
    clients: Vec<Option<Arc<Client>>>,
}

trait Address: Ord + Copy {
    /// The first `length` bits, the others zero.
    fn prefix(self, length: u8) -> Self;
}

impl Address for u32 {
    fn prefix(self, length: u8) -> u32 {
        self & u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0)
    }
}

impl Address for u128 {
    fn prefix(self, length: u8) -> u128 {
        self & u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0)
    }
}

impl<A: Address> Family<A> {
    fn push(&mut self, length: u8, network: A, client: Option<Arc<Client>>) {
        let at = self.lengths.iter().position(|known| known.length == length);
        if at.is_none() {
            self.lengths.push(Networks {
                length,
                addresses: Vec::new(),
                clients: Vec::new(),
            });
        }
        let of_length = match at {
            Some(at) => self.lengths.get_mut(at),
            None => self.lengths.last_mut(),
        };
        if let Some(networks) = of_length {
            networks.addresses.push(network);
            networks.clients.push(client);
        }
    }

    /// Sorts, and turns networks that are there twice into one shadow each, which are returned.
    fn finish(&mut self) -> Vec<(A, u8)> {
        let mut twice = Vec::new();
        self.lengths.sort_by_key(|networks| std::cmp::Reverse(networks.length));
        for Networks {
            length,
            addresses,
            clients,
        } in &mut self.lengths
        {
            let mut pairs: Vec<_> = addresses.drain(..).zip(clients.drain(..)).collect();
            pairs.sort_by_key(|&(network, _)| network);
            pairs.dedup_by(|next, kept| {
                let equal = next.0 == kept.0;
                if equal {
                    kept.1 = None;
                    twice.push((kept.0, *length));
                }
                equal
            });
            (*addresses, *clients) = pairs.into_iter().unzip();
            addresses.shrink_to_fit();
            clients.shrink_to_fit();
        }
        twice.dedup();
        twice
    }

    fn lookup(&self, address: A) -> Option<&Arc<Client>> {
        self.lengths.iter().find_map(|networks| {
            let at = networks
                .addresses
                .binary_search(&address.prefix(networks.length))
                .ok()?;
            networks.clients.get(at).map(Option::as_ref)
        })?
    }

    /// Those that are no shadows.
    fn iter(&self) -> impl Iterator<Item = &Arc<Client>> {
        self.lengths
            .iter()
            .flat_map(|networks| networks.clients.iter().flatten())
    }

    fn usable(&self) -> usize {
        self.iter().count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn client(id: i64, network: &str, radsec: bool) -> Entry {
        Entry::Client(Arc::new(Client {
            id,
            site: SiteId(1),
            network: network.parse().unwrap(),
            secret: Arc::new(Secret::new(b"testing123")),
            radsec,
            require_message_authenticator: true,
            limit_proxy_state: true,
            min_tls: None,
            max_tls: None,
            fragment_size: None,
            mab_password: MabPassword::Mac,
            mab_identity: MabIdentity::CallingStationId,
        }))
    }

    fn shadow(network: &str) -> Entry {
        Entry::Shadow {
            network: network.parse().unwrap(),
            radsec: false,
        }
    }

    fn found(clients: &Clients, address: &str, radsec: bool) -> Option<i64> {
        clients.lookup(address.parse().unwrap(), radsec).map(|client| client.id)
    }

    #[test]
    fn a_client_is_small() {
        assert!(size_of::<Client>() <= 80, "{}", size_of::<Client>());
    }

    /// Section 2.1: longest prefix first, networks may nest.
    #[test]
    fn rule_2_1_longest_prefix() {
        let (clients, conflicts) = Clients::new([
            client(1, "0.0.0.0/0", false),
            client(2, "10.0.0.0/8", false),
            client(3, "10.1.0.0/16", false),
            client(4, "10.1.2.3/32", false),
            client(5, "2001:db8::/32", false),
            client(6, "2001:db8::1/128", false),
        ]);
        assert_eq!(conflicts, []);
        assert_eq!(clients.len(), 6);
        for (address, id) in [
            ("10.1.2.3", Some(4)),
            ("10.1.2.4", Some(3)),
            ("10.2.0.0", Some(2)),
            ("255.255.255.255", Some(1)),
            ("2001:db8::1", Some(6)),
            ("2001:db8::2", Some(5)),
            ("2001:db9::2", None),
            ("::ffff:10.1.2.3", Some(4)),
        ] {
            assert_eq!(found(&clients, address, false), id, "{address}");
        }
    }

    /// Section 2.1: a client marked `radsec` never matches UDP, nor the reverse.
    #[test]
    fn rule_2_1_radsec_is_apart() {
        let (clients, conflicts) = Clients::new([client(1, "10.0.0.0/8", false), client(2, "10.1.0.0/16", true)]);
        assert_eq!(conflicts, []);
        assert_eq!(found(&clients, "10.1.0.1", false), Some(1));
        assert_eq!(found(&clients, "10.1.0.1", true), Some(2));
        assert_eq!(found(&clients, "10.2.0.1", true), None);
    }

    #[test]
    fn a_shadow_hides_the_wider_network() {
        let (clients, _) = Clients::new([
            client(1, "10.0.0.0/8", false),
            shadow("10.1.0.0/16"),
            client(3, "10.1.2.0/24", false),
        ]);
        assert_eq!(found(&clients, "10.1.0.1", false), None);
        assert_eq!(found(&clients, "10.1.2.1", false), Some(3));
        assert_eq!(found(&clients, "10.2.0.1", false), Some(1));
    }

    #[test]
    fn equal_networks_are_answered_by_none() {
        let (clients, conflicts) = Clients::new([
            client(1, "10.0.0.0/8", false),
            client(2, "10.1.0.0/16", false),
            client(3, "10.1.9.9/16", false),
            client(4, "::ffff:10.1.0.0/112", false),
            client(5, "2001:db8::/32", false),
            client(6, "2001:DB8:0::/32", false),
        ]);
        let networks: Vec<_> = conflicts.iter().map(|conflict| conflict.network.to_string()).collect();
        assert_eq!(networks, ["10.1.0.0/16", "2001:db8::/32"]);
        assert_eq!(found(&clients, "10.1.0.1", false), None);
        assert_eq!(found(&clients, "10.2.0.1", false), Some(1));
        assert_eq!(found(&clients, "2001:db8::1", false), None);
        assert_eq!(clients.len(), 1);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        /// The table finds what a walk over all networks finds.
        #[test]
        fn like_a_linear_search(
            networks in proptest::collection::btree_set((0u32..64, 20u8..=32), 0..40),
            address in 0u32..64,
        ) {
            let spread = |bits: u32| Ipv4Addr::from_bits(0x0a00_0000 | (bits << 4) | (bits & 7));
            let networks: Vec<Ipv4Net> =
                networks.iter().map(|&(bits, length)| Ipv4Net::new(spread(bits), length).unwrap().trunc()).collect();
            let mut distinct = networks.clone();
            distinct.sort();
            distinct.dedup();
            let (clients, _) = Clients::new(
                distinct.iter().enumerate().map(|(id, network)| client(id as i64, &network.to_string(), false)));
            let address = spread(address);
            let expected = distinct
                .iter()
                .enumerate()
                .filter(|(_, network)| network.contains(&address))
                .max_by_key(|(_, network)| network.prefix_len())
                .map(|(id, _)| id as i64);
            prop_assert_eq!(clients.lookup(address.into(), false).map(|client| client.id), expected);
        }
    }
}
