//! Writes DER, and whatever else has a tag, a length and contents: what a certificate is made of, right or wrong.

/// One element with the shortest length.
pub fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let contents = parts.concat();
    let mut out = vec![tag];
    match contents.len() {
        short @ 0..0x80 => out.push(short as u8),
        length @ 0x80..0x100 => out.extend([0x81, length as u8]),
        length @ 0x100..0x1_0000 => out.extend([0x82, (length >> 8) as u8, length as u8]),
        length => out.extend([0x83, (length >> 16) as u8, (length >> 8) as u8, length as u8]),
    }
    out.extend(contents);
    out
}

pub fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    element(0x30, parts)
}

pub fn set(parts: &[&[u8]]) -> Vec<u8> {
    element(0x31, parts)
}

/// An INTEGER with these octets as they stand.
pub fn integer(octets: &[u8]) -> Vec<u8> {
    element(0x02, &[octets])
}

pub fn boolean(octet: u8) -> Vec<u8> {
    element(0x01, &[&[octet]])
}

pub fn null() -> Vec<u8> {
    vec![0x05, 0]
}

pub fn octet_string(contents: &[u8]) -> Vec<u8> {
    element(0x04, &[contents])
}

/// A BIT STRING without unused bits.
pub fn bit_string(contents: &[u8]) -> Vec<u8> {
    element(0x03, &[&[0], contents])
}

pub fn utf8(text: &str) -> Vec<u8> {
    element(0x0C, &[text.as_bytes()])
}

pub fn printable(text: &str) -> Vec<u8> {
    element(0x13, &[text.as_bytes()])
}

pub fn ia5(text: &str) -> Vec<u8> {
    element(0x16, &[text.as_bytes()])
}

pub fn bmp(text: &str) -> Vec<u8> {
    let octets: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
    element(0x1E, &[&octets])
}

pub fn utc_time(text: &str) -> Vec<u8> {
    element(0x17, &[text.as_bytes()])
}

pub fn generalized_time(text: &str) -> Vec<u8> {
    element(0x18, &[text.as_bytes()])
}

/// `[number]` around whole elements.
pub fn explicit(number: u8, parts: &[&[u8]]) -> Vec<u8> {
    element(0xA0 | number, parts)
}

/// `[number]` in place of a primitive tag.
pub fn implicit(number: u8, contents: &[u8]) -> Vec<u8> {
    element(0x80 | number, &[contents])
}

/// An OBJECT IDENTIFIER from its dotted form.
pub fn oid(dotted: &str) -> Vec<u8> {
    element(0x06, &[&oid_octets(dotted)])
}

pub fn oid_octets(dotted: &str) -> Vec<u8> {
    let arcs: Vec<u64> = dotted.split('.').map(|arc| arc.parse().unwrap()).collect();
    let mut out = Vec::new();
    let first = [arcs[0] * 40 + arcs[1]];
    for arc in first.iter().chain(&arcs[2..]) {
        let mut septets = vec![(arc & 0x7F) as u8];
        let mut rest = arc >> 7;
        while rest > 0 {
            septets.push(0x80 | (rest & 0x7F) as u8);
            rest >>= 7;
        }
        out.extend(septets.into_iter().rev());
    }
    out
}

/// An AlgorithmIdentifier; parameters are whole elements, or none.
pub fn algorithm(dotted: &str, parameters: &[&[u8]]) -> Vec<u8> {
    sequence(&[&oid(dotted), &parameters.concat()])
}

/// One attribute of a name, in a set of its own.
pub fn attribute(dotted: &str, value: &[u8]) -> Vec<u8> {
    set(&[&sequence(&[&oid(dotted), value])])
}

/// A distinguished name of its sets.
pub fn name(sets: &[Vec<u8>]) -> Vec<u8> {
    sequence(&[&sets.concat()])
}

/// An otherName of the subject's alternative names.
pub fn other_name(dotted: &str, value: &[u8]) -> Vec<u8> {
    explicit(0, &[&oid(dotted), &explicit(0, &[value])])
}
