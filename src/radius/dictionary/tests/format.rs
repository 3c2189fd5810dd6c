//! The file format, line by line.

use super::*;

/// In version 4 a name has those of all that it stands in before it: it must not grow with their depth.
#[test]
fn a_name_is_bounded_with_all_that_stands_before_it() {
    let (outer, inner) = ("o".repeat(100), "i".repeat(27));
    let (dictionary, warnings) = load(&format!(
        "BEGIN-PROTOCOL RADIUS\n\
         ATTRIBUTE {outer} 241.250 tlv\n\
         BEGIN-TLV {outer}\n\
         ATTRIBUTE {inner} 1 string\n\
         ATTRIBUTE {inner}s 2 string\n\
         END-TLV {outer}\n\
         END-PROTOCOL RADIUS\n"
    ));
    assert_eq!(named(&dictionary, &format!("{outer}-{inner}")).name.len(), 128);
    assert_eq!(
        warnings,
        [format!(
            "d:5: `{inner}s`: with the names of what it stands in it has 129 characters, more than 128"
        )]
    );
    assert!(dictionary.by_name(&format!("{outer}-{inner}s")).is_none());
}

#[test]
fn numbers_types_and_flags() {
    let (dictionary, warnings) = load(
        "vendor Acme 0x1000 format=2,1 # a comment\n\
         Begin-Vendor ACME\n\
         attribute Acme-Hex 0x0102 String\n\
         ATTRIBUTE Acme-Key 3 octets encrypt=2,has_tag\n\
         ATTRIBUTE Acme-V4 4 string encrypt=Tunnel-Password array\n\
         ATTRIBUTE Acme-Fixed 5 octets[16]\n\
         ATTRIBUTE Acme-Box 6 tlv\n\
         ATTRIBUTE Acme-Box-Two .2 ipv4addr\n\
         ATTRIBUTE Acme-Box-One 6.1 uint32\n\
         BEGIN-TLV Acme-Box\n\
         ATTRIBUTE Acme-Box-Three 3 byte\n\
         END-TLV Acme-Box\n\
         END-VENDOR Acme\n\
         ATTRIBUTE Acme-Far 26.4096.7 integer\n\
         ATTRIBUTE Acme-Old 8 integer Acme\n\
         ATTRIBUTE Acme-Internal 3000 string\n\
         ATTRIBUTE Acme-Extended 241.200 tlv\n\
         ATTRIBUTE Acme-Extended-One 241.200.1 integer64\n\
         ATTRIBUTE Acme-Evs 241.26.4096.1 ether\n",
    );
    assert_eq!(warnings, [""; 0]);
    assert_eq!(
        dictionary.vendor_format(0x1000),
        VendorFormat {
            type_octets: 2,
            length_octets: 1,
            continuation: false
        }
    );
    for (name, oid) in [
        ("Acme-Hex", "26.4096.258"),
        ("Acme-Box-One", "26.4096.6.1"),
        ("Acme-Box-Two", "26.4096.6.2"),
        ("Acme-Box-Three", "26.4096.6.3"),
        ("Acme-Far", "26.4096.7"),
        ("Acme-Old", "26.4096.8"),
        ("Acme-Extended-One", "241.200.1"),
        ("Acme-Evs", "241.26.4096.1"),
    ] {
        assert_eq!(
            dictionary.oid(dictionary.by_name(name).unwrap()).as_deref(),
            Some(oid),
            "{name}"
        );
        assert_eq!(dictionary.by_oid(oid), dictionary.by_name(name), "{oid}");
    }
    assert_eq!(named(&dictionary, "Acme-Hex").data_type, DataType::Text);
    let key = named(&dictionary, "Acme-Key").flags;
    assert_eq!((key.has_tag, key.encryption), (true, Encryption::TunnelPassword));
    let v4 = named(&dictionary, "Acme-V4").flags;
    assert_eq!((v4.array, v4.encryption), (true, Encryption::TunnelPassword));
    assert_eq!(named(&dictionary, "Acme-Fixed").data_type, DataType::Octets(Some(16)));
    let internal = named(&dictionary, "Acme-Internal");
    assert_eq!((internal.parent, internal.flags.internal), (Parent::Internal, true));
    assert_eq!(dictionary.source(internal.id), Some(("d", 16)));
}

#[test]
fn version_4() {
    let (dictionary, warnings) = load(
        "PROTOCOL RADIUS 1\n\
         BEGIN-PROTOCOL RADIUS\n\
         ATTRIBUTE Extended-Attribute-1 241 tlv extended\n\
         ATTRIBUTE Extended-Vendor-Specific-1 241.26 vsa\n\
         VENDOR Acme 4096\n\
         BEGIN-VENDOR Acme\n\
         ATTRIBUTE AVPair 1 string secret\n\
         ATTRIBUTE User-Name 2 string\n\
         ENUM Colour uint32\n\
         VALUE Colour Red 1\n\
         ATTRIBUTE Wall 3 uint32 enum=Colour\n\
         VALUE Colour Blue 2\n\
         VALUE Wall Plain 0\n\
         ATTRIBUTE Box 4 tlv\n\
         ATTRIBUTE Lid .1 bool\n\
         BEGIN Box\n\
         ATTRIBUTE Side 2 uint8\n\
         ALIAS Acme-Wood .Side\n\
         END Box\n\
         ATTRIBUTE Header 5 struct\n\
         MEMBER Kind uint8 key\n\
         STRUCT Round Kind 1\n\
         MEMBER Radius uint16\n\
         END-VENDOR Acme\n\
         BEGIN-VENDOR Acme parent=Extended-Attribute-1.Extended-Vendor-Specific-1\n\
         ATTRIBUTE Long 1 uint64\n\
         END-VENDOR Acme\n\
         BEGIN-VENDOR Cisco\n\
         ATTRIBUTE AVPair 1 string\n\
         END-VENDOR Cisco\n\
         ALIAS Acme-Old-Lid Vendor-Specific.Acme.Box.Lid\n\
         ALIAS Acme-Older-Lid 26.4096.4.1\n\
         DEFINE Acme-Nowhere string\n\
         FLAGS internal\n\
         ATTRIBUTE Acme-Inside 5000 uint32\n\
         END-PROTOCOL RADIUS\n",
    );
    assert_eq!(warnings, [""; 0]);
    for (name, oid) in [
        ("Acme-AVPair", "26.4096.1"),
        ("Acme-User-Name", "26.4096.2"),
        ("User-Name", "1"),
        ("Acme-Box-Side", "26.4096.4.2"),
        ("Acme-Wood", "26.4096.4.2"),
        ("Acme-Old-Lid", "26.4096.4.1"),
        ("Acme-Older-Lid", "26.4096.4.1"),
        ("Acme-Long", "241.26.4096.1"),
        ("Cisco-AVPair", "26.9.1"),
    ] {
        assert_eq!(dictionary.by_name(name), dictionary.by_oid(oid), "{name}");
        assert!(dictionary.by_oid(oid).is_some(), "{oid}");
    }
    assert_eq!(
        named(&dictionary, "Cisco-AVPair").name,
        named(Dictionary::builtin(), "Cisco-AVPair").name
    );
    let wall: Vec<_> = named(&dictionary, "Acme-Wall")
        .values
        .iter()
        .map(|(name, n)| (&**name, *n))
        .collect();
    assert_eq!(wall, [("Red", 1), ("Blue", 2), ("Plain", 0)]);
    assert_eq!(named(&dictionary, "Acme-Header").data_type, DataType::Opaque);
    assert_eq!(named(&dictionary, "Acme-Inside").parent, Parent::Internal);
    assert_eq!(named(&dictionary, "Acme-Nowhere").parent, Parent::Internal);
}

#[test]
fn another_protocol_is_skipped_with_one_warning() {
    let (dictionary, warnings) = load(
        "BEGIN-PROTOCOL DHCPv4\nATTRIBUTE Subnet-Mask 1 ipaddr\nNONSENSE\nEND-PROTOCOL DHCPv4\n\
         ATTRIBUTE After 240 string\n",
    );
    assert_eq!(
        warnings,
        ["d:1: protocol `DHCPv4` is not RADIUS: its attributes are skipped"]
    );
    assert_eq!(dictionary.by_name("Subnet-Mask"), None);
    assert!(dictionary.by_name("After").is_some());
}

#[test]
fn what_is_not_understood_is_a_warning_with_its_line() {
    for (line, message) in [
        ("NONSENSE here", "unknown keyword `NONSENSE`"),
        ("ATTRIBUTE X", "expected `ATTRIBUTE name number type`"),
        ("ATTRIBUTE X 240 sometype", "unknown type `sometype`"),
        ("ATTRIBUTE X 240 octets[0]", "unknown type `octets[0]`"),
        ("ATTRIBUTE X 240 string sticky", "unknown flag `sticky`"),
        ("ATTRIBUTE X 240 string encrypt=4", "unknown flag `encrypt=4`"),
        ("ATTRIBUTE X 0 string", "number 0 is no attribute of RADIUS"),
        ("ATTRIBUTE X ten string", "`ten` is no attribute number"),
        ("ATTRIBUTE X 4294967296 string", "`4294967296` is no attribute number"),
        (
            "ATTRIBUTE X 1.2 string",
            "`1.2`: 1 is not defined before as something that holds attributes",
        ),
        ("ATTRIBUTE X 26.9 string", "`26.9` is no attribute number"),
        ("ATTRIBUTE X .2 string", "`.2` follows no tlv"),
        (
            "ATTRIBUTE X 26.9.256 string",
            "number 256 does not fit: it is at most 255 here",
        ),
        ("VALUE Service-Type Here", "expected `VALUE attribute name number`"),
        ("VALUE Service-Type Here there", "`there` is no number"),
        (
            "VALUE Service-Type Here -1",
            "-1 is no value of `Service-Type`: expected 0 to 4294967295",
        ),
        (
            "VALUE Service-Type Framed-User 3",
            "`Framed-User` of `Service-Type` was 2 before",
        ),
        (
            "VALUE User-Name Root 0",
            "`User-Name` is no number: names of its values mean nothing",
        ),
        (
            "VALUE No-Such-Attribute A 0",
            "value `A` of the unknown attribute `no-such-attribute`",
        ),
        ("VENDOR Acme", "expected `VENDOR name number`"),
        ("VENDOR Acme many", "`many` is no vendor number"),
        (
            "VENDOR Acme 1 format=3,1",
            "`format=3,1`: expected format=type,length[,c]",
        ),
        (
            "VENDOR Acme 1 format=2,2,c",
            "`format=2,2,c`: expected format=type,length[,c]",
        ),
        ("FLAGS external", "unknown FLAGS `external`"),
        ("ALIAS X No-Such-Attribute", "unknown attribute `No-Such-Attribute`"),
        (
            "ALIAS SSID User-Name",
            "`SSID` is the name of a fact of this software, and stays it",
        ),
        (
            "ATTRIBUTE SSID 240 string",
            "`SSID` is the name of a fact of this software, and stays it",
        ),
        ("MEMBER X uint8", "MEMBER outside of a struct"),
        ("$INCLUDE", "expected `$INCLUDE file`"),
        (
            "ATTRIBUTE X 240 tlv clone=Y",
            "flag `clone=Y` is not followed: the octets stay with the attribute",
        ),
        (
            "a b c d e f g h i j",
            "`a b c d e f g h i j`: more words than a line can have",
        ),
    ] {
        let (_, warnings) = load(&format!("# first\n\t{line}\n"));
        assert_eq!(warnings, [format!("d:2: {message}")]);
    }
    let (_, warnings) = load("BEGIN-VENDOR Cisco\nATTRIBUTE Cisco-New 240 string\n");
    assert_eq!(warnings, ["d:2: BEGIN-VENDOR is still open at the end of the file"]);
    let (_, loaded) = load_files(&[("d", &"NONSENSE\n".repeat(MAX_WARNINGS + 7))]);
    let loaded = loaded.unwrap();
    assert_eq!((loaded.warnings.len(), loaded.more_warnings), (MAX_WARNINGS, 7));
}

#[test]
fn what_would_misplace_the_lines_after_it_is_an_error() {
    for (text, error) in [
        (
            "\nBEGIN-VENDOR Nobody\n",
            "d:2: unknown vendor `Nobody`: no VENDOR line names it",
        ),
        ("BEGIN-VENDOR\n", "d:1: expected `BEGIN-VENDOR name`"),
        (
            "BEGIN-VENDOR Cisco into=x\n",
            "d:1: unknown option `into=x` of BEGIN-VENDOR",
        ),
        (
            "BEGIN-VENDOR Cisco format=User-Name\n",
            "d:1: `User-Name` is no attribute that holds vendors' attributes",
        ),
        (
            "END-VENDOR Cisco\n",
            "d:1: END-VENDOR where no such block was begun in this file",
        ),
        (
            "BEGIN-VENDOR Cisco\nEND-TLV X\n",
            "d:2: END-TLV where no such block was begun in this file",
        ),
        ("BEGIN-TLV Nothing\n", "d:1: unknown tlv `Nothing`"),
        ("BEGIN-TLV User-Name\n", "d:1: `User-Name` is no tlv"),
        ("$INCLUDE gone\n", "d:1: can't read `gone`: no such file"),
    ] {
        assert_eq!(refused(text), error);
    }
}

#[test]
fn includes_are_relative_to_their_file() {
    let (dictionary, loaded) = load_files(&[
        ("etc/root", "$INCLUDE sub/one\n$INCLUDE- sub/gone\n"),
        ("etc/sub/one", "$INCLUDE two\n$INCLUDE ../three\n"),
        ("etc/sub/two", "ATTRIBUTE Two 230 string\n"),
        ("etc/sub/../three", "ATTRIBUTE Three 231 string\n"),
    ]);
    let loaded = loaded.unwrap();
    assert_eq!((loaded.files, loaded.attributes, loaded.warnings.len()), (4, 2, 0));
    assert_eq!(
        dictionary.source(dictionary.by_name("Two").unwrap()),
        Some(("etc/sub/two", 1))
    );
    assert!(dictionary.by_name("Three").is_some());
}

#[test]
fn an_include_loop_is_an_error() {
    let (_, loaded) = load_files(&[("a", "$INCLUDE b\n"), ("b", "\n$INCLUDE ./x/../a\n"), ("x/../a", "")]);
    let error = loaded.unwrap_err();
    assert_eq!((error.file.as_str(), error.line), ("b", 2));
    assert!(matches!(error.problem, Problem::Loop(_)), "{error}");
}

#[test]
fn includes_are_bounded_in_depth_and_number() {
    let files: Vec<(String, String)> = (0..40)
        .map(|n| (format!("f{n}"), format!("$INCLUDE f{}\n$INCLUDE f{}\n", n + 1, n + 1)))
        .collect();
    let read = |limit: usize| {
        let mut reads = 0;
        let loaded = Dictionary::empty().extend(Path::new("f0"), &mut |path| {
            reads += 1;
            let file = files.iter().take(limit).find(|(name, _)| path == Path::new(name));
            Ok(file.map(|(_, text)| text.clone()).unwrap_or_default())
        });
        (loaded.unwrap_err().problem, reads)
    };
    let (problem, reads) = read(40);
    assert!(matches!(problem, Problem::TooMuch(_)), "{problem}");
    assert_eq!(reads, MAX_DEPTH);
    // twice at each of fourteen levels is 16,384 files
    let (problem, reads) = read(14);
    assert!(matches!(problem, Problem::TooMuch(_)), "{problem}");
    assert!(reads <= parser::MAX_FILES + 1, "{reads}");
}

#[test]
fn an_unreadable_root_is_an_error() {
    let error = Dictionary::empty()
        .extend(Path::new("/x/dictionary"), &mut |_| {
            Err(ReadError::Other("permission denied".into()))
        })
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "/x/dictionary:0: can't read `/x/dictionary`: permission denied"
    );
}
