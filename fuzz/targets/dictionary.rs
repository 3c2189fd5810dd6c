//! Dictionary files from anywhere: the first octet says over what they are read, and NUL separates the files, of which the
//! first is the root and the others are named `1`, `2` and so on. Then everything that was defined is used.

use std::path::Path;

use portreeve::radius::attribute::{encode_attribute, visit};
use portreeve::radius::dictionary::describe::describe;
use portreeve::radius::dictionary::parser::ReadError;
use portreeve::radius::dictionary::{Dictionary, parser};
use portreeve::radius::packet::Packet;
use portreeve::radius::value;

pub fn fuzz(data: &[u8]) {
    let Some((&over, text)) = data.split_first() else {
        return;
    };
    let text = String::from_utf8_lossy(text);
    let files: Vec<&str> = text.split('\0').collect();
    let mut dictionary = match over {
        b'b' => Dictionary::builtin().clone(),
        _ => Dictionary::empty(),
    };
    let known = dictionary.definitions().count();
    let loaded = dictionary.extend(Path::new("0"), &mut |path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let at: usize = name.parse().map_err(|_| ReadError::Missing)?;
        files.get(at).map(|text| (*text).to_owned()).ok_or(ReadError::Missing)
    });
    if let Ok(loaded) = &loaded {
        assert!(loaded.files <= parser::MAX_FILES && loaded.warnings.len() <= parser::MAX_WARNINGS);
    }
    for definition in dictionary.definitions().skip(known).take(64) {
        assert!(definition.name.len() <= parser::MAX_NAME);
        assert!(dictionary.by_name(&definition.name).is_some(), "{}", definition.name);
        let _ = describe(&dictionary, &definition.name);
        if let Some(oid) = dictionary.oid(definition.id) {
            let _ = describe(&dictionary, &oid);
        }
        let first = definition.values.first().map(|(name, _)| &**name);
        for text in ["1", "0x0102", "10.0.0.1", "00-11-22-33-44-55"]
            .into_iter()
            .chain(first)
        {
            if let Ok(value) = value::parse(definition, text) {
                let _ = value::display(definition, &value);
                let mut octets = Vec::new();
                let _ = encode_attribute(&dictionary, definition.id, Some(1), &value, None, &mut octets);
                let _ = encode_attribute(&dictionary, definition.id, None, &value, None, &mut octets);
            }
        }
    }
    for octets in SAMPLES {
        let mut datagram = vec![2, 1, 0, 0];
        datagram.extend([0; 16]);
        datagram.extend_from_slice(octets);
        let length = u16::try_from(datagram.len()).unwrap_or(u16::MAX).to_be_bytes();
        for (place, octet) in datagram.iter_mut().skip(2).zip(length) {
            *place = octet;
        }
        if let Ok(packet) = Packet::parse(&datagram) {
            visit(&dictionary, &packet, None, &mut |_| {});
        }
    }
}

/// Attributes of every shape, to be decoded by whatever the dictionary says of them.
const SAMPLES: &[&[u8]] = &[
    &[1, 3, 97, 2, 2, 81, 5, 1, 49, 50],
    &[26, 12, 0, 0, 0, 9, 1, 6, 97, 61, 98, 99],
    &[26, 13, 0, 0, 0, 1, 0, 1, 0, 7, 97, 98, 99],
    &[26, 14, 0, 0, 0x60, 0xb5, 1, 5, 0x80, 1, 2, 3, 4, 5],
    &[241, 7, 1, 1, 4, 5, 6, 245, 9, 1, 0x80, 2, 5, 3, 3, 7, 245, 5, 1, 0, 9],
    &[241, 12, 26, 0, 0, 0, 9, 1, 1, 4, 5, 6],
];

/// The built-in files, and small ones with every keyword.
pub fn seeds() -> Vec<Vec<u8>> {
    let whole = [
        include_str!("../../dictionaries/dictionary.standard"),
        include_str!("../../dictionaries/dictionary.extended"),
        include_str!("../../dictionaries/dictionary.cisco"),
        include_str!("../../dictionaries/dictionary.microsoft"),
        include_str!("../../dictionaries/dictionary.portreeve"),
    ];
    let small = [
        "ATTRIBUTE A 1 string\nATTRIBUTE B 2 integer has_tag,encrypt=2\nVALUE B x 0x10\n$INCLUDE 1\n\0ATTRIBUTE C 3 octets[4]\n$INCLUDE- 2\n",
        "VENDOR V 9 format=4,0\nBEGIN-VENDOR V\nATTRIBUTE V-A 1 tlv\nBEGIN-TLV V-A\nATTRIBUTE V-B 1 ipaddr\nEND-TLV V-A\nATTRIBUTE V-C 1.2 byte array\nEND-VENDOR V\n",
        "BEGIN-PROTOCOL RADIUS\nFLAGS internal\nATTRIBUTE Extended-Attribute-1 241 extended\nATTRIBUTE E 241.1 tlv\nATTRIBUTE F .1 uint32\nATTRIBUTE Vsa 241.26 evs\nSTRUCT S T 1\nMEMBER m uint8\nALIAS X Y\nENUM Z integer\nEND-PROTOCOL RADIUS\n",
        "VENDOR W 24757 format=1,1,c\nBEGIN-VENDOR W\nATTRIBUTE W-A 1 string concat\nEND-VENDOR W\nATTRIBUTE Vendor-Specific 26 vsa\nATTRIBUTE L 245 long-extended\nBEGIN-VENDOR W parent=L\n",
        "$INCLUDE 1\n\0$INCLUDE 2\n\0$INCLUDE 1\n",
    ];
    let whole = whole.iter().flat_map(|text| [format!("e{text}"), format!("b{text}")]);
    let small = small.iter().flat_map(|text| [format!("e{text}"), format!("b{text}")]);
    whole.chain(small).map(String::into_bytes).collect()
}
