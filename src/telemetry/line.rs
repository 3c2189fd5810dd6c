//! The line of one authentication, as JSON or as `key=value`: the same fields in the same order, absent ones left out.

use std::io::Write;
use std::net::IpAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use super::escape;
use crate::config::LogFormat;
use crate::mac::MacAddress;
use crate::server::record::{Authentication, Text};

/// Formats lines for one node. Keeps the text of the current second, since most lines of a busy node share it.
#[derive(Debug)]
pub struct Formatter {
    node: String,
    second: i64,
    prefix: String,
}

impl Formatter {
    /// A formatter for the node of this name.
    pub fn new(node: &str) -> Formatter {
        Formatter {
            node: node.to_owned(),
            second: i64::MIN,
            prefix: String::new(),
        }
    }

    /// Appends the line of `record`, line end included.
    pub fn line(&mut self, record: &Authentication, format: LogFormat, out: &mut Vec<u8>) {
        match format {
            LogFormat::Json => {
                self.object(record, out);
                out.extend_from_slice(b"}\n");
            }
            LogFormat::Text => {
                let mut first = true;
                self.fields(record, &mut |key, value| {
                    if !std::mem::take(&mut first) {
                        out.push(b' ');
                    }
                    out.extend_from_slice(key.as_bytes());
                    out.push(b'=');
                    value.write(out, escape::word);
                });
                out.push(b'\n');
            }
        }
    }

    /// Appends `record` as a JSON object that ends with what to know and do about its reason.
    pub fn explained(&mut self, record: &Authentication, out: &mut Vec<u8>) {
        self.object(record, out);
        out.extend_from_slice(b",\"meaning\":");
        escape::json_string(record.reason.meaning().as_bytes(), out);
        if !record.reason.hint().is_empty() {
            out.extend_from_slice(b",\"hint\":");
            escape::json_string(record.reason.hint().as_bytes(), out);
        }
        out.push(b'}');
    }

    /// The object without its closing brace.
    fn object(&mut self, record: &Authentication, out: &mut Vec<u8>) {
        let mut separator = b'{';
        self.fields(record, &mut |key, value| {
            out.push(std::mem::replace(&mut separator, b','));
            out.push(b'"');
            out.extend_from_slice(key.as_bytes());
            out.extend_from_slice(b"\":");
            value.write(out, escape::json_string);
        });
    }

    /// Every field that is present, in the documented order.
    fn fields(&mut self, record: &Authentication, emit: &mut dyn FnMut(&'static str, Field<'_>)) {
        // taken apart by name, so that a new field cannot be forgotten here
        let Authentication {
            time,
            client,
            nas_id,
            port_id,
            ssid,
            site,
            method,
            eap_type,
            tls,
            resumed,
            user,
            mac,
            cn,
            serial,
            issuer,
            not_after,
            policy,
            failed_rule,
            vlan,
            acl,
            outcome,
            reason,
            phase,
            rounds,
            duration,
            revision,
            source,
            conversation,
            detail,
        } = record;
        let micros = self.at(*time);
        emit("time", Field::Time(&self.prefix, micros));
        emit("node", Field::Text(self.node.as_bytes()));
        emit("client", Field::Address(*client));
        let mut text = |key, value: &Option<Text>| {
            if let Some(value) = value {
                emit(key, Field::Text(value.as_bytes()));
            }
        };
        text("nas_id", nas_id);
        text("port_id", port_id);
        text("ssid", ssid);
        text("site", site);
        if let Some(method) = method {
            emit("method", Field::Word(method.word()));
        }
        if let Some(eap_type) = eap_type {
            emit("eap_type", Field::Word(eap_type));
        }
        if let Some(version) = tls {
            emit("tls", Field::Word(version));
        }
        if let Some(resumed) = resumed {
            emit("resumed", Field::Boolean(*resumed));
        }
        if let Some(user) = user {
            emit("user", Field::Text(user.as_bytes()));
        }
        if let Some(mac) = mac {
            emit("mac", Field::Mac(*mac));
            emit("mac_local", Field::Boolean(mac.is_local()));
        }
        let mut text = |key, value: &Option<Text>| {
            if let Some(value) = value {
                emit(key, Field::Text(value.as_bytes()));
            }
        };
        text("cn", cn);
        text("serial", serial);
        text("issuer", issuer);
        if let Some(not_after) = not_after {
            emit("not_after", Field::Time(&whole_second(*not_after), None));
        }
        let mut text = |key, value: &Option<Text>| {
            if let Some(value) = value {
                emit(key, Field::Text(value.as_bytes()));
            }
        };
        text("policy", policy);
        text("failed_rule", failed_rule);
        text("vlan", vlan);
        text("acl", acl);
        emit("outcome", Field::Word(outcome.word()));
        emit("reason", Field::Word(reason.word()));
        if let Some(phase) = phase {
            emit("phase", Field::Word(phase));
        }
        emit("rounds", Field::Number(u64::from(*rounds)));
        emit(
            "duration_us",
            Field::Number(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)),
        );
        if let Some((epoch, number)) = revision {
            emit("revision", Field::Revision(*epoch, *number));
        }
        if let Some(source) = source {
            emit("source", Field::Text(source.as_bytes()));
        }
        if let Some(conversation) = conversation {
            emit("conversation", Field::Octets(*conversation));
        }
        if let Some(detail) = detail {
            emit("detail", Field::Text(detail.as_bytes()));
        }
    }

    /// Makes `prefix` the text of the time's second; the microseconds are left.
    fn at(&mut self, time: SystemTime) -> Option<u32> {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let second = i64::try_from(since.as_secs()).unwrap_or_default();
        if second != self.second {
            self.prefix = whole_second(second);
            self.second = second;
        }
        Some(since.subsec_micros())
    }
}

/// A value on its way into a line.
enum Field<'a> {
    Text(&'a [u8]),
    Word(&'static str),
    Boolean(bool),
    Number(u64),
    Octets(u64),
    Revision(i64, i64),
    Address(IpAddr),
    Mac(MacAddress),
    Time(&'a str, Option<u32>),
}

impl Field<'_> {
    /// `quote` is how text is written; numbers and booleans stand bare.
    fn write(&self, out: &mut Vec<u8>, quote: fn(&[u8], &mut Vec<u8>)) {
        let mut buffer = [0; 64];
        let mut stack = std::io::Cursor::new(&mut buffer[..]);
        let written = match self {
            Field::Text(octets) => return quote(octets, out),
            Field::Word(word) => return quote(word.as_bytes(), out),
            Field::Boolean(value) => return out.extend_from_slice(if *value { b"true" } else { b"false" }),
            Field::Number(number) => return decimal(*number, out),
            Field::Octets(number) => write!(stack, "{number:016x}"),
            Field::Revision(epoch, number) => write!(stack, "{epoch}:{number}"),
            Field::Address(address) => write!(stack, "{address}"),
            Field::Mac(MacAddress([a, b, c, d, e, f])) => {
                write!(stack, "{a:02x}-{b:02x}-{c:02x}-{d:02x}-{e:02x}-{f:02x}")
            }
            Field::Time(second, Some(micros)) => write!(stack, "{second}.{micros:06}Z"),
            Field::Time(second, None) => write!(stack, "{second}Z"),
        };
        let length = usize::try_from(stack.position()).unwrap_or_default();
        if written.is_ok() {
            quote(buffer.get(..length).unwrap_or_default(), out);
        }
    }
}

fn decimal(mut number: u64, out: &mut Vec<u8>) {
    let start = out.len();
    loop {
        out.push(b'0' + (number % 10) as u8);
        number /= 10;
        if number == 0 {
            break;
        }
    }
    if let Some(digits) = out.get_mut(start..) {
        digits.reverse();
    }
}

/// `2026-07-05T12:30:00`; years beyond 9999 are cut to the last second of time.
pub fn whole_second(unix_seconds: i64) -> String {
    let time = jiff::Timestamp::from_second(unix_seconds).unwrap_or(jiff::Timestamp::MAX);
    time.strftime("%Y-%m-%dT%H:%M:%S").to_string()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::reason::Reason;
    use crate::server::record::{Method, Outcome};

    fn full() -> Authentication {
        Authentication {
            nas_id: Some("sw-access-01".into()),
            port_id: Some("GigabitEthernet1/0/12".into()),
            ssid: Some("corp wifi".into()),
            site: Some("london".into()),
            method: Some(Method::EapTls),
            eap_type: Some("tls"),
            tls: Some("1.3"),
            resumed: Some(false),
            user: Some(Text::from(
                &b"host/evil\" outcome=accept\n{\"outcome\":\"accept\"}\x1b[2J\xff"[..],
            )),
            mac: Some(MacAddress([0x02, 0, 0, 0, 0, 1])),
            cn: Some("laptop-7".into()),
            serial: Some("4d2f".into()),
            issuer: Some("/C=GB/O=Example/CN=Devices".into()),
            not_after: Some(1_800_000_000),
            policy: Some("Staff".into()),
            failed_rule: Some("Printers: NAS-Port-Type == Ethernet".into()),
            vlan: Some("120".into()),
            acl: Some("staff-in".into()),
            phase: Some("finished"),
            rounds: 5,
            duration: Duration::from_micros(12_345),
            revision: Some((1_700_000_000, 42)),
            source: Some("memory".into()),
            conversation: Some(0x00ab_cdef_0123_4567),
            detail: Some("all is well".into()),
            ..Authentication::new(
                UNIX_EPOCH + Duration::from_micros(1_783_254_600_000_042),
                "192.0.2.1".parse().unwrap(),
                Outcome::Accept,
                Reason::PolicyAccept,
            )
        }
    }

    fn line(record: &Authentication, format: LogFormat) -> String {
        let mut out = Vec::new();
        Formatter::new("node-a").line(record, format, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn json_has_every_field_and_cannot_be_broken_out_of() {
        let expected = concat!(
            r#"{"time":"2026-07-05T12:30:00.000042Z","node":"node-a","client":"192.0.2.1","nas_id":"sw-access-01","#,
            r#""port_id":"GigabitEthernet1/0/12","ssid":"corp wifi","site":"london","method":"eap-tls","#,
            r#""eap_type":"tls","tls":"1.3","resumed":false,"#,
            r#""user":"host/evil\" outcome=accept\n{\"outcome\":\"accept\"}\u001b[2J\\xff","#,
            r#""mac":"02-00-00-00-00-01","mac_local":true,"cn":"laptop-7","serial":"4d2f","#,
            r#""issuer":"/C=GB/O=Example/CN=Devices","not_after":"2027-01-15T08:00:00Z","policy":"Staff","#,
            r#""failed_rule":"Printers: NAS-Port-Type == Ethernet","vlan":"120","acl":"staff-in","#,
            r#""outcome":"accept","reason":"policy-accept","phase":"finished","rounds":5,"duration_us":12345,"#,
            r#""revision":"1700000000:42","source":"memory","conversation":"00abcdef01234567","detail":"all is well"}"#,
            "\n",
        );
        let line = line(&full(), LogFormat::Json);
        assert_eq!(line, expected);
        let _: serde_json::Value = serde_json::from_str(&line).unwrap();
    }

    #[test]
    fn text_has_every_field_and_cannot_be_broken_out_of() {
        let expected = concat!(
            "time=2026-07-05T12:30:00.000042Z node=node-a client=192.0.2.1 nas_id=sw-access-01 ",
            "port_id=GigabitEthernet1/0/12 ssid=\"corp wifi\" site=london method=eap-tls eap_type=tls tls=1.3 ",
            "resumed=false user=\"host/evil\\\" outcome=accept\\n{\\\"outcome\\\":\\\"accept\\\"}\\u001b[2J\\\\xff\" ",
            "mac=02-00-00-00-00-01 mac_local=true cn=laptop-7 serial=4d2f issuer=\"/C=GB/O=Example/CN=Devices\" ",
            "not_after=2027-01-15T08:00:00Z policy=Staff failed_rule=\"Printers: NAS-Port-Type == Ethernet\" vlan=120 ",
            "acl=staff-in outcome=accept reason=policy-accept phase=finished rounds=5 duration_us=12345 ",
            "revision=1700000000:42 source=memory conversation=00abcdef01234567 detail=\"all is well\"\n",
        );
        assert_eq!(line(&full(), LogFormat::Text), expected);
    }

    #[test]
    fn absent_fields_are_left_out() {
        let record = Authentication::new(
            UNIX_EPOCH,
            "2001:db8::1".parse().unwrap(),
            Outcome::Reject,
            Reason::NoCredentials,
        );
        assert_eq!(
            line(&record, LogFormat::Text),
            "time=1970-01-01T00:00:00.000000Z node=node-a client=2001:db8::1 outcome=reject reason=no-credentials rounds=1 duration_us=0\n"
        );
    }

    #[test]
    fn an_explained_record_says_what_to_do() {
        let record = Authentication::new(
            UNIX_EPOCH,
            "192.0.2.1".parse().unwrap(),
            Outcome::Reject,
            Reason::MacNotListed,
        );
        let mut out = Vec::new();
        Formatter::new("node-a").explained(&record, &mut out);
        let value: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(value["meaning"], Reason::MacNotListed.meaning());
        assert_eq!(value["hint"], Reason::MacNotListed.hint());
    }
}
