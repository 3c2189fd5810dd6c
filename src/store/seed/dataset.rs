//! Data sets that are computed: the same counts give the same rows, on any machine. Nothing here knows a database.
//!
//! `nacs` has the shape of a published test of the system that users migrate from. Every site has policies that it shares
//! with others. A request of the site satisfies all rules of all of them, but for the last rule of each: that one asks for
//! a role, and the role that the site's switches name is that of the site's last policy. So all policies but the last
//! fail, and each only at its last rule. Rules use `equals` and `contains` alone, which that system has too.

use std::fmt::Write;
use std::net::Ipv4Addr;

use ipnet::{IpNet, Ipv4Net};

use super::SeedError;
use crate::mac::MacAddress;
use crate::policy::model::{ResponseRow, Rule};
use crate::store::set::{Client, ClientKey, Policy};

/// The secret that all clients share with the server.
pub const SECRET: &str = "testing123";

/// The address of the first client.
const FIRST_CLIENT: u32 = u32::from_be_bytes([127, 1, 0, 0]);
/// The last that can be a client's: 127.255.255.255 is the broadcast address of the loopback network.
const LAST_CLIENT: u32 = u32::from_be_bytes([127, 255, 255, 254]);
/// The first listed address; locally administered.
const FIRST_MAC: u64 = 0x0200_0000_0001;
/// Entries of the table in memory are counted with 32 bits.
const MOST_MACS: u64 = u32::MAX as u64;

/// What every request says of its port. Rules look for its words.
const CONNECT_INFO: &str = "CONNECT 1000Mbps Full Duplex Ethernet";

/// How many of everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Sites.
    pub sites: u32,
    /// Policies that sites share; each site has a fallback of its own besides.
    pub policies: u32,
    /// Rules of each shared policy; at least one.
    pub rules: u32,
    /// Responses of each shared policy; a fallback has one.
    pub responses: u32,
    /// Shared policies that a site has; at least one, at most all.
    pub policies_per_site: u32,
    /// Clients of each site, a single address each.
    pub clients: u32,
    /// Listed addresses of each site.
    pub macs: u32,
}

impl Default for Counts {
    fn default() -> Counts {
        Counts {
            sites: 1_750,
            policies: 1_000,
            rules: 5,
            responses: 5,
            policies_per_site: 5,
            clients: 10,
            macs: 10,
        }
    }
}

/// The data set `nacs`, of any size. Sites, policies, clients and addresses are counted from 0 here, and from 1 in names.
#[derive(Clone, Copy, Debug)]
pub struct Nacs {
    counts: Counts,
    /// From one policy of a site to its next; has no divisor in common with the number of policies.
    step: u32,
    /// Digits of a number in a name: equal ones everywhere, so that no name is a part of another.
    digits: usize,
}

impl Nacs {
    /// The set of these counts.
    pub fn new(counts: Counts) -> Result<Nacs, SeedError> {
        let Counts {
            sites,
            policies,
            policies_per_site,
            clients,
            macs,
            ..
        } = counts;
        if policies_per_site > policies {
            return Err(SeedError::TooFewPolicies {
                policies,
                policies_per_site,
            });
        }
        let most_clients = u64::from(LAST_CLIENT - FIRST_CLIENT) + 1;
        let wanted = u64::from(sites) * u64::from(clients);
        if wanted > most_clients {
            return Err(SeedError::OutOfAddresses {
                sites,
                clients,
                wanted,
                most: most_clients,
            });
        }
        let wanted = u64::from(sites) * u64::from(macs);
        if wanted > MOST_MACS {
            return Err(SeedError::TooManyMacs {
                sites,
                macs,
                wanted,
                most: MOST_MACS,
            });
        }
        Ok(Nacs {
            counts,
            step: step(policies),
            digits: sites.max(policies).to_string().len().max(4),
        })
    }

    /// How many of everything.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// How many policies, fallbacks too.
    pub fn policies(&self) -> u64 {
        u64::from(self.counts.policies) + u64::from(self.counts.sites)
    }

    /// How many clients.
    pub fn clients(&self) -> u64 {
        u64::from(self.counts.sites) * u64::from(self.counts.clients)
    }

    /// How many listed addresses.
    pub fn macs(&self) -> u64 {
        u64::from(self.counts.sites) * u64::from(self.counts.macs)
    }

    /// How many rows, in all tables.
    pub fn rows(&self) -> u64 {
        let Counts {
            sites,
            policies,
            rules,
            responses,
            policies_per_site,
            ..
        } = self.counts;
        let policies = u64::from(policies) * (1 + u64::from(rules) + u64::from(responses));
        // Itself, its fallback with a response, its links to that and to its policies.
        let sites = u64::from(sites) * (4 + u64::from(policies_per_site));
        policies + sites + self.clients() + self.macs()
    }

    /// A site's tag.
    pub fn tag(&self, site: u32) -> String {
        format!("site-{}", self.number(site))
    }

    /// A site's name.
    pub fn site_name(&self, site: u32) -> String {
        format!("Site {}", self.number(site))
    }

    /// A shared policy's name.
    pub fn policy_name(&self, policy: u32) -> String {
        format!("policy-{}", self.number(policy))
    }

    /// A shared policy.
    pub fn policy(&self, policy: u32) -> Policy {
        Policy {
            description: String::new(),
            action: "accept".to_owned(),
            methods: vec!["eap-tls".to_owned(), "mab".to_owned()],
            fallback: false,
            rules: self.rules(policy),
            responses: self.responses(policy),
        }
    }

    /// The name of a site's fallback.
    pub fn fallback_name(&self, site: u32) -> String {
        format!("fallback-{}", self.number(site))
    }

    /// A site's fallback: quarantine for whoever has a good certificate and no role here.
    pub fn fallback(&self, site: u32) -> Policy {
        Policy {
            description: String::new(),
            action: "accept".to_owned(),
            methods: vec!["eap-tls".to_owned()],
            fallback: true,
            rules: Vec::new(),
            responses: vec![response("Filter-Id", format!("quarantine-{}", self.number(site)))],
        }
    }

    /// The policies of a site in the order in which they are tried. The last one decides.
    pub fn policies_of(&self, site: u32) -> impl Iterator<Item = u32> + use<> {
        let (policies, step) = (u64::from(self.counts.policies.max(1)), u64::from(self.step));
        (0..self.counts.policies_per_site).map(move |at| {
            let policy = (u64::from(site) + u64::from(at) * step) % policies;
            u32::try_from(policy).unwrap_or_default()
        })
    }

    /// The policy that decides for requests of a site.
    pub fn decides(&self, site: u32) -> u32 {
        self.policies_of(site).last().unwrap_or_default()
    }

    /// The addresses of a site's clients.
    pub fn clients_of(&self, site: u32) -> impl Iterator<Item = Ipv4Addr> + use<> {
        let first = FIRST_CLIENT.saturating_add(site.saturating_mul(self.counts.clients));
        (first..first.saturating_add(self.counts.clients)).map(Ipv4Addr::from)
    }

    /// The listed addresses of a site.
    pub fn macs_of(&self, site: u32) -> impl Iterator<Item = MacAddress> + use<> {
        let count = u64::from(self.counts.macs);
        let first = FIRST_MAC + u64::from(site) * count;
        (first..first + count).map(MacAddress::from_u64)
    }

    /// What a switch of the site says of itself and of its ports: attributes of every request.
    pub fn request_attributes(&self, site: u32) -> Vec<ResponseRow> {
        let role = self.number(self.decides(site));
        vec![
            response("NAS-Identifier", format!("switch.{}.role-{role}", self.tag(site))),
            response("NAS-Port-Type", "Ethernet"),
            response("Connect-Info", CONNECT_INFO),
        ]
    }

    /// All but the last hold for every request of every site.
    fn rules(&self, policy: u32) -> Vec<Rule> {
        let mut words = CONNECT_INFO.split(' ').cycle().skip(policy as usize % 5);
        let before = self.counts.rules.saturating_sub(1);
        let mut rules: Vec<Rule> = (0..before)
            .map(|at| match at {
                0 => rule("NAS-Port-Type", "equals", "Ethernet"),
                1 => rule("Client-Shortname", "contains", "site-"),
                2 => rule("NAS-Identifier", "contains", "switch"),
                _ => rule("Connect-Info", "contains", words.next().unwrap_or_default()),
            })
            .collect();
        rules.push(rule(
            "NAS-Identifier",
            "contains",
            format!("role-{}", self.number(policy)),
        ));
        rules
    }

    /// A VLAN is three responses or none; what is left names the policy, and then fills.
    fn responses(&self, policy: u32) -> Vec<ResponseRow> {
        const VLANS: u32 = 4_094;
        let mut responses = Vec::new();
        let mut left = self.counts.responses;
        if left >= 3 {
            responses.push(response("Tunnel-Type", "VLAN"));
            responses.push(response("Tunnel-Medium-Type", "IEEE-802"));
            responses.push(response("Tunnel-Private-Group-Id", (policy % VLANS + 1).to_string()));
            left -= 3;
        }
        if left >= 1 {
            responses.push(response("Filter-Id", format!("acl-{}", self.number(policy))));
            left -= 1;
        }
        responses.extend((1..=left).map(|at| {
            let port = 1_024 + policy % 60_000;
            response(
                "Cisco-AVPair",
                format!("ip:inacl#{}=permit tcp any any eq {port}", at * 10),
            )
        }));
        responses
    }

    fn number(&self, index: u32) -> String {
        let mut text = String::new();
        // Writing to a String does not fail.
        _ = write!(text, "{:0digits$}", u64::from(index) + 1, digits = self.digits);
        text
    }
}

/// What is in the set for each client.
pub fn client() -> Client {
    Client::new(SECRET)
}

/// The key of a client with this address.
pub fn client_key(address: Ipv4Addr) -> ClientKey {
    ClientKey {
        network: IpNet::V4(Ipv4Net::from(address)),
        radsec: false,
    }
}

/// Somewhat more than a third of the policies, so that the policies of a site are far apart, and every policy is the last
/// one of some sites.
fn step(policies: u32) -> u32 {
    let start = (u64::from(policies) * 382 / 1_000).max(1);
    let start = u32::try_from(start).unwrap_or(1);
    (start..=policies.max(start))
        .find(|step| divisor(*step, policies) == 1)
        .unwrap_or(1)
}

fn divisor(a: u32, b: u32) -> u32 {
    match b {
        0 => a,
        _ => divisor(b, a % b),
    }
}

fn rule(attribute: &str, operator: &str, value: impl Into<String>) -> Rule {
    Rule {
        attribute: attribute.to_owned(),
        operator: operator.to_owned(),
        value: value.into(),
    }
}

fn response(attribute: &str, value: impl Into<String>) -> ResponseRow {
    ResponseRow {
        attribute: attribute.to_owned(),
        value: value.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn nacs(counts: Counts) -> Nacs {
        Nacs::new(counts).unwrap()
    }

    #[test]
    fn the_numbers_are_those_of_the_published_test() {
        let nacs = nacs(Counts::default());
        assert_eq!((nacs.counts().sites, nacs.policies()), (1_750, 2_750));
        assert_eq!((nacs.clients(), nacs.macs()), (17_500, 17_500));
        for policy in 0..1_000 {
            let policy = nacs.policy(policy);
            assert_eq!((policy.rules.len(), policy.responses.len()), (5, 5));
        }
        assert_eq!(nacs.fallback(3).responses.len(), 1);
        assert_eq!(
            nacs.clients_of(0).next().map(|ip| ip.to_string()).as_deref(),
            Some("127.1.0.0")
        );
    }

    #[test]
    fn a_site_has_different_policies_and_every_policy_decides_somewhere() {
        for (sites, policies, policies_per_site) in [(1_750, 1_000, 5), (7, 6, 6), (3, 2, 1), (1, 1, 1), (500, 97, 50)]
        {
            let counts = Counts {
                sites,
                policies,
                policies_per_site,
                ..Counts::default()
            };
            let nacs = nacs(counts);
            for site in 0..sites {
                let mine: HashSet<_> = nacs.policies_of(site).collect();
                assert_eq!(mine.len(), policies_per_site as usize, "{counts:?}");
                assert!(mine.iter().all(|policy| *policy < policies), "{counts:?}");
            }
            let decide: HashSet<_> = (0..sites).map(|site| nacs.decides(site)).collect();
            assert_eq!(decide.len(), sites.min(policies) as usize, "{counts:?}");
        }
    }

    #[test]
    fn no_two_sites_have_a_client_or_an_address_in_common() {
        let nacs = nacs(Counts {
            sites: 300,
            clients: 7,
            macs: 3,
            ..Counts::default()
        });
        let clients: HashSet<_> = (0..300).flat_map(|site| nacs.clients_of(site)).collect();
        let macs: HashSet<_> = (0..300).flat_map(|site| nacs.macs_of(site)).collect();
        assert_eq!((clients.len(), macs.len()), (2_100, 900));
        assert!(clients.iter().all(|ip| ip.is_loopback()));
    }

    #[test]
    fn addresses_run_out_where_the_loopback_network_ends() {
        let counts = Counts {
            sites: 16_711_679,
            clients: 1,
            macs: 0,
            ..Counts::default()
        };
        let nacs = nacs(counts);
        let last = nacs.clients_of(counts.sites - 1).last().map(|ip| ip.to_string());
        assert_eq!(last.as_deref(), Some("127.255.255.254"));
        let error = Nacs::new(Counts {
            sites: 1_671_168,
            clients: 10,
            ..counts
        })
        .unwrap_err();
        assert_eq!(
            error.to_string(),
            "1671168 sites of 10 clients need 16711680 addresses, and from 127.1.0.0 to 127.255.255.254 there are 16711679\n\
             hint: give fewer `--sites` or `--clients`"
        );
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let too_few = Nacs::new(Counts {
            policies: 4,
            ..Counts::default()
        });
        assert!(matches!(too_few, Err(SeedError::TooFewPolicies { .. })));
        let too_many = Nacs::new(Counts {
            macs: u32::MAX,
            ..Counts::default()
        });
        assert!(matches!(too_many, Err(SeedError::TooManyMacs { .. })));
        for counts in [
            Counts {
                sites: 10_000,
                macs: 100,
                ..Counts::default()
            },
            Counts {
                sites: 1,
                macs: 1_000_000,
                ..Counts::default()
            },
        ] {
            assert_eq!(nacs(counts).macs(), 1_000_000);
        }
    }
}
