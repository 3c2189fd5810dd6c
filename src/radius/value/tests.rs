use super::*;
use crate::radius::dictionary::Dictionary;

fn definition(name: &str) -> &'static Definition {
    let dictionary = Dictionary::builtin();
    dictionary.definition(dictionary.by_name(name).unwrap())
}

#[test]
fn named_values_have_no_case_and_display_by_name() {
    let port_type = definition("NAS-Port-Type");
    for text in ["Ethernet", "ethernet", "15", "0x0f"] {
        assert_eq!(parse(port_type, text), Ok(Value::Unsigned(15)), "{text}");
    }
    assert_eq!(display(port_type, &Value::Unsigned(15)), "Ethernet");
    assert_eq!(display(port_type, &Value::Unsigned(4711)), "4711");
}
