//! The line of one authentication, as JSON or as `key=value`: the same fields in the same order, absent ones left out.

use std::net::IpAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use super::escape;
use crate::config::LogFormat;
use crate::mac::MacAddress;
use crate::server::record::{Authentication, Method, Text};

/// A field's name with what stands around it, made when the program was.
struct Key {
    json: &'static str,
    text: &'static str,
}

macro_rules! key {
    ($name:literal) => {
        Key {
            json: concat!(",\"", $name, "\":"),
            text: concat!(" ", $name, "="),
        }
    };
}

/// Formats lines for one node. Keeps the text of the current second and of the current revision, since most lines of a busy
/// node share them.
#[derive(Debug)]
pub struct Formatter {
    node: String,
    second: i64,
    prefix: String,
    revision: Vec<u8>,
    epoch_octets: usize,
    number: u64,
}

impl Formatter {
    /// A formatter for the node of this name.
    pub fn new(node: &str) -> Formatter {
        Formatter {
            node: node.to_owned(),
            second: i64::MIN,
            prefix: String::new(),
            revision: b":0".to_vec(),
            epoch_octets: 0,
            number: 0,
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
                self.fields::<false>(record, out);
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
        out.push(b'{');
        self.fields::<true>(record, out);
    }

    /// Every field that is present, in the documented order.
    fn fields<const JSON: bool>(&mut self, record: &Authentication, out: &mut Vec<u8>) {
        // taken apart by name, so that a new field cannot be forgotten here
        let Authentication {
            time,
            client,
            method,
            eap_type,
            tls,
            resumed,
            ticket: _,
            mac,
            not_after,
            outcome,
            reason,
            phase,
            rounds,
            duration,
            revision,
            source,
            conversation,
            texts,
        } = record;
        let micros = self.at(*time);
        if let Some(number) = revision {
            self.decided_by(texts.get(Text::Epoch).unwrap_or_default(), *number);
        }
        let mut fields = Fields::<JSON> { out };
        // the first field, so that none needs to ask whether it is
        let time = fields.name(&key!("time")).trim_start_matches([' ', ',']);
        fields.out.extend_from_slice(time.as_bytes());
        fields.time(&self.prefix, Some(micros));
        fields.octets(&key!("node"), self.node.as_bytes());
        fields.address(&key!("client"), *client);
        fields.text(&key!("nas_id"), texts.get(Text::NasId));
        fields.text(&key!("port_id"), texts.get(Text::PortId));
        fields.text(&key!("ssid"), texts.get(Text::Ssid));
        fields.text(&key!("site"), texts.get(Text::Site));
        fields.word(&key!("method"), method.map(Method::word));
        fields.word(&key!("eap_type"), *eap_type);
        fields.word(&key!("tls"), *tls);
        fields.boolean(&key!("resumed"), *resumed);
        fields.text(&key!("user"), texts.get(Text::User));
        if let Some(mac) = mac {
            fields.mac(&key!("mac"), *mac);
            fields.boolean(&key!("mac_local"), Some(mac.is_local()));
        }
        fields.text(&key!("cn"), texts.get(Text::Cn));
        fields.text(&key!("serial"), texts.get(Text::Serial));
        fields.text(&key!("issuer"), texts.get(Text::Issuer));
        if let Some(not_after) = not_after {
            fields.key(&key!("not_after"));
            fields.time(&whole_second(*not_after), None);
        }
        fields.text(&key!("policy"), texts.get(Text::Policy));
        fields.text(&key!("failed_rule"), texts.get(Text::FailedRule));
        fields.text(&key!("vlan"), texts.get(Text::Vlan));
        fields.text(&key!("acl"), texts.get(Text::Acl));
        fields.word(&key!("outcome"), Some(outcome.word()));
        fields.word(&key!("reason"), Some(reason.word()));
        fields.word(&key!("phase"), *phase);
        fields.number(&key!("rounds"), u64::from(*rounds));
        fields.number(
            &key!("duration_us"),
            u64::try_from(duration.as_micros()).unwrap_or(u64::MAX),
        );
        if revision.is_some() {
            fields.octets(&key!("revision"), &self.revision);
        }
        fields.word(&key!("source"), *source);
        if let Some(conversation) = conversation {
            fields.hexadecimal(&key!("conversation"), &conversation.to_be_bytes());
        }
        fields.text(&key!("detail"), texts.get(Text::Detail));
    }

    /// Makes `revision` the text of this one.
    fn decided_by(&mut self, epoch: &[u8], number: u64) {
        if self.epoch_octets != epoch.len() || self.number != number || !self.revision.starts_with(epoch) {
            self.revision.clear();
            self.revision.extend_from_slice(epoch);
            self.revision.push(b':');
            decimal(number, &mut self.revision);
            (self.epoch_octets, self.number) = (epoch.len(), number);
        }
    }

    /// Makes `prefix` the text of the time's second; the microseconds are left.
    fn at(&mut self, time: SystemTime) -> u32 {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let second = i64::try_from(since.as_secs()).unwrap_or_default();
        if second != self.second {
            self.prefix = whole_second(second);
            self.second = second;
        }
        since.subsec_micros()
    }
}

/// A line in the making. The most frequent kinds of values are written without `fmt`, which costs more than all else
/// together. Each format has code of its own.
struct Fields<'l, const JSON: bool> {
    out: &'l mut Vec<u8>,
}

impl<const JSON: bool> Fields<'_, JSON> {
    fn name(&self, key: &Key) -> &'static str {
        if JSON { key.json } else { key.text }
    }

    fn key(&mut self, key: &Key) {
        self.out.extend_from_slice(self.name(key).as_bytes());
    }

    fn quoted(&mut self, octets: &[u8]) {
        match JSON {
            true => escape::json_string(octets, self.out),
            false => escape::word(octets, self.out),
        }
    }

    fn octets(&mut self, key: &Key, octets: &[u8]) {
        self.key(key);
        self.quoted(octets);
    }

    fn text(&mut self, key: &Key, text: Option<&[u8]>) {
        if let Some(text) = text {
            self.octets(key, text);
        }
    }

    fn word(&mut self, key: &Key, word: Option<&'static str>) {
        if let Some(word) = word {
            self.octets(key, word.as_bytes());
        }
    }

    fn boolean(&mut self, key: &Key, value: Option<bool>) {
        if let Some(value) = value {
            self.key(key);
            self.out.extend_from_slice(if value { b"true" } else { b"false" });
        }
    }

    fn number(&mut self, key: &Key, number: u64) {
        self.key(key);
        decimal(number, self.out);
    }

    fn address(&mut self, key: &Key, address: IpAddr) {
        let mut short = Short::default();
        match address {
            IpAddr::V4(address) => {
                for (index, octet) in address.octets().into_iter().enumerate() {
                    if index > 0 {
                        short.push(b'.');
                    }
                    let (hundreds, tens, ones) = (octet / 100, octet / 10 % 10, octet % 10);
                    if hundreds > 0 {
                        short.push(b'0' + hundreds);
                    }
                    if octet > 9 {
                        short.push(b'0' + tens);
                    }
                    short.push(b'0' + ones);
                }
                self.octets(key, short.as_bytes());
            }
            IpAddr::V6(address) => self.octets(key, address.to_string().as_bytes()),
        }
    }

    fn mac(&mut self, key: &Key, mac: MacAddress) {
        let mut short = Short::default();
        for (index, octet) in mac.0.into_iter().enumerate() {
            if index > 0 {
                short.push(b'-');
            }
            short.hexadecimal(octet);
        }
        self.octets(key, short.as_bytes());
    }

    fn hexadecimal(&mut self, key: &Key, octets: &[u8]) {
        let mut short = Short::default();
        for octet in octets {
            short.hexadecimal(*octet);
        }
        self.octets(key, short.as_bytes());
    }

    /// The value alone: `second` is text already.
    fn time(&mut self, second: &str, micros: Option<u32>) {
        let mut short = Short::default();
        for octet in second.bytes() {
            short.push(octet);
        }
        if let Some(micros) = micros {
            short.push(b'.');
            for power in [100_000, 10_000, 1_000, 100, 10, 1] {
                short.push(b'0' + (micros / power % 10) as u8);
            }
        }
        short.push(b'Z');
        self.quoted(short.as_bytes());
    }
}

/// A text too short for the heap.
#[derive(Default)]
struct Short {
    octets: [u8; 32],
    length: usize,
}

impl Short {
    fn push(&mut self, octet: u8) {
        if let Some(place) = self.octets.get_mut(self.length) {
            *place = octet;
            self.length += 1;
        }
    }

    fn hexadecimal(&mut self, octet: u8) {
        for digit in [octet >> 4, octet & 0xF] {
            self.push(if digit < 10 { b'0' + digit } else { b'a' - 10 + digit });
        }
    }

    fn as_bytes(&self) -> &[u8] {
        self.octets.get(..self.length).unwrap_or_default()
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
        let mut record = Authentication {
            method: Some(Method::EapTls),
            eap_type: Some("tls"),
            tls: Some("1.3"),
            resumed: Some(false),
            mac: Some(MacAddress([0x02, 0, 0, 0, 0, 1])),
            not_after: Some(1_800_000_000),
            phase: Some("finished"),
            rounds: 5,
            duration: Duration::from_micros(12_345),
            revision: Some(42),
            source: Some("memory"),
            conversation: Some(0x00ab_cdef_0123_4567),
            ..Authentication::new(
                UNIX_EPOCH + Duration::from_micros(1_783_254_600_000_042),
                "192.0.2.1".parse().unwrap(),
                Outcome::Accept,
                Reason::PolicyAccept,
            )
        };
        let evil = b"host/evil\" outcome=accept\n{\"outcome\":\"accept\"}\x1b[2J\xff";
        for text in Text::ALL {
            let octets: &[u8] = match text {
                Text::NasId => b"sw-access-01",
                Text::PortId => b"GigabitEthernet1/0/12",
                Text::Ssid => b"corp wifi",
                Text::Site => b"london",
                Text::User => evil,
                Text::Cn => b"laptop-7",
                Text::Serial => b"4d2f",
                Text::Issuer => b"/C=GB/O=Example/CN=Devices",
                Text::Policy => b"Staff",
                Text::FailedRule => b"Printers: NAS-Port-Type == Ethernet",
                Text::Vlan => b"120",
                Text::Acl => b"staff-in",
                Text::Epoch => b"1700000000",
                Text::Detail => b"all is well",
            };
            record.texts.set(text, octets);
        }
        record
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
