//! What an accept comes to where nothing of it depends on the request, made when the policy is compiled.

use super::compiled::{CompiledResponse, Content};
use crate::radius::dictionary::Dictionary;
use crate::radius::dictionary::types::{AttributeId, Value};
use crate::radius::value;

/// Which attributes the log line shows.
#[derive(Debug)]
pub struct ShownNames {
    vlan: Option<AttributeId>,
    /// Names of ACLs and roles.
    acl: [Option<AttributeId>; 8],
}

/// What the log line shows of a reply: its last VLAN, and the first of its ACLs.
#[derive(Debug, Default)]
pub struct Shown {
    /// As `vlan`.
    pub vlan: Option<String>,
    /// As `acl`.
    pub acl: Option<String>,
}

impl ShownNames {
    /// Those of `dictionary`.
    pub fn new(dictionary: &Dictionary) -> ShownNames {
        ShownNames {
            vlan: dictionary.by_name("Tunnel-Private-Group-Id"),
            acl: [
                "Filter-Id",
                "Airespace-ACL-Name",
                "Aruba-User-Role",
                "HP-User-Role",
                "Juniper-Switching-Filter",
                "Cisco-AVPair",
                "NAS-Filter-Rule",
                "Extreme-Policy-Name",
            ]
            .map(|name| dictionary.by_name(name)),
        }
    }

    /// Notes an attribute of the reply, if it is one of these.
    pub fn note(&self, dictionary: &Dictionary, id: AttributeId, value: &Value<'_>, shown: &mut Shown) {
        let place = match Some(id) {
            id if id == self.vlan => &mut shown.vlan,
            id if shown.acl.is_none() && self.acl.contains(&id) => &mut shown.acl,
            _ => return,
        };
        *place = Some(match value {
            Value::Text(text) => text.to_string(),
            other => value::display(dictionary.definition(id), other),
        });
    }
}

/// A policy's responses as the reply and the log line have them. All of it stands in one run of octets: it is read with
/// one or two accesses to memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// The policy's name, the attributes, the VLAN, the ACL.
    octets: Box<[u8]>,
    name_end: u16,
    attributes_end: u16,
    vlan_end: u16,
}

impl Prepared {
    /// That of these responses; none where one is a template or hidden, shares a TLV with others, or is a User-Name, in
    /// whose place the reply has the request's.
    pub(super) fn new(dictionary: &Dictionary, policy: &str, responses: &[CompiledResponse]) -> Option<Prepared> {
        let user_name = dictionary.by_name("User-Name");
        let (names, mut shown) = (ShownNames::new(dictionary), Shown::default());
        let mut octets = policy.as_bytes().to_vec();
        let name_end = end(&octets)?;
        for response in responses {
            let Content::Fixed { value, encoded } = response.content() else {
                return None;
            };
            if response.in_tlv() || Some(response.attribute()) == user_name {
                return None;
            }
            octets.extend_from_slice(encoded);
            names.note(dictionary, response.attribute(), value, &mut shown);
        }
        let attributes_end = end(&octets)?;
        octets.extend_from_slice(shown.vlan.unwrap_or_default().as_bytes());
        let vlan_end = end(&octets)?;
        octets.extend_from_slice(shown.acl.unwrap_or_default().as_bytes());
        Some(Prepared {
            octets: octets.into(),
            name_end,
            attributes_end,
            vlan_end,
        })
    }

    /// The policy's name.
    pub fn policy(&self) -> &[u8] {
        self.part(0, self.name_end)
    }

    /// The reply's attributes, encoded.
    pub fn attributes(&self) -> &[u8] {
        self.part(self.name_end, self.attributes_end)
    }

    /// What the log line shows as `vlan`; none: there is none.
    pub fn vlan(&self) -> Option<&[u8]> {
        Some(self.part(self.attributes_end, self.vlan_end)).filter(|vlan| !vlan.is_empty())
    }

    /// What the log line shows as `acl`; none: there is none.
    pub fn acl(&self) -> Option<&[u8]> {
        let acl = self.octets.get(usize::from(self.vlan_end)..);
        acl.filter(|acl| !acl.is_empty())
    }

    fn part(&self, from: u16, to: u16) -> &[u8] {
        self.octets.get(usize::from(from)..usize::from(to)).unwrap_or_default()
    }
}

/// None where it is more than a reply could hold.
fn end(octets: &[u8]) -> Option<u16> {
    u16::try_from(octets.len()).ok()
}

#[cfg(test)]
mod tests {
    use super::super::testing;

    fn prepared(responses: &[&str]) -> Option<[String; 4]> {
        let policy = testing::compiled("accept lobby", &["NAS-Port == 1"], responses);
        let shown = |octets: &[u8]| String::from_utf8(octets.to_vec()).unwrap();
        policy.prepared.as_ref().map(|prepared| {
            [
                shown(prepared.policy()),
                prepared.attributes().len().to_string(),
                prepared.vlan().map_or("no".to_owned(), shown),
                prepared.acl().map_or("no".to_owned(), shown),
            ]
        })
    }

    #[test]
    fn what_is_fixed_is_prepared_with_the_last_vlan_and_the_first_acl() {
        let found = prepared(&[
            "Tunnel-Private-Group-Id:1 = 120",
            "Filter-Id = guests",
            "Tunnel-Private-Group-Id:1 = 130",
            "Aruba-User-Role = staff",
        ]);
        // RFC 2865 section 5: two octets before each value, here a tag each in two of them; RFC 2865 section 5.26: six more
        // before the vendor's
        let octets = (2 + 1 + 3) + (2 + 6) + (2 + 1 + 3) + (2 + 4 + 2 + 5);
        assert_eq!(found.unwrap(), ["lobby", &octets.to_string(), "130", "guests"]);
        assert_eq!(prepared(&["Session-Timeout = 60"]).unwrap(), ["lobby", "6", "no", "no"]);
        assert_eq!(prepared(&[]).unwrap(), ["lobby", "0", "no", "no"]);
    }

    #[test]
    fn what_depends_on_the_request_is_not_prepared() {
        for response in [
            "User-Name = device",
            "Filter-Id = %{TLS-Client-Cert-Common-Name}",
            "Tunnel-Password = secret",
        ] {
            assert_eq!(prepared(&["Session-Timeout = 60", response]), None, "{response}");
        }
    }
}
