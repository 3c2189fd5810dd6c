//! From a rule's operator and text to its condition: which operators a type has, and how their values are read.

use std::net::IpAddr;

use ipnet::IpNet;
use regex::RegexBuilder;

use super::{
    Condition, MAX_COMPILED_PATTERN, MAX_PATTERN, MAX_VALUE, NumberTest, OctetsTest, Pattern, Problem, TextTest,
};
use super::{as_number, minutes};
use crate::policy::operator::{Base, Operator};
use crate::policy::{macs, text};
use crate::radius::dictionary::types::{DataType, Definition, Parent, Value};
use crate::radius::value;

impl Condition {
    /// Compiles the condition of a rule on `definition`.
    pub fn compile(definition: &Definition, operator: Operator, text: &str) -> Result<Condition, Problem> {
        if text.len() > MAX_VALUE {
            return Err(Problem::new(
                format!("a value of {} octets: at most {MAX_VALUE}", text.len()),
                "split the policy, or match on a common prefix",
            ));
        }
        let base = operator.base;
        if base == Base::Present {
            return match text.is_empty() {
                true => Ok(Condition::Present),
                false => Err(text::TextError::ValueNotTaken(operator.word().to_owned(), text.to_owned()).into()),
            };
        }
        let piece = matches!(base, Base::Contains | Base::StartsWith | Base::EndsWith | Base::Matches);
        if piece && text.is_empty() {
            return Err(Problem::new(
                format!("`{operator}` with an empty value would hold for everything"),
                "write `present` if that is meant",
            ));
        }
        match definition.data_type {
            DataType::Text if is_fact(definition, "Time-Of-Day") => time(base, text),
            DataType::Text if is_fact(definition, "Day-Of-Week") => day(base, text),
            DataType::Text if macs::may_carry(definition) => mac_text(base, text),
            DataType::Text => Ok(Condition::Text(text_test(base, text, |item| Ok(item.to_owned()))?)),
            DataType::Byte
            | DataType::Short
            | DataType::Integer
            | DataType::Integer64
            | DataType::Signed
            | DataType::Date => number(definition, base, text),
            DataType::Ipv4 | DataType::Ipv6 | DataType::ComboIp => address(definition, base, text),
            DataType::Ipv4Prefix | DataType::Ipv6Prefix if base == Base::In => networks(definition, text),
            DataType::Ipv4Prefix | DataType::Ipv6Prefix | DataType::InterfaceId => {
                let canonical = |item: &str| Ok(value::display(definition, &parse(definition, item)?));
                Ok(Condition::Displayed(text_test(base, text, canonical)?))
            }
            DataType::Ether => ether(definition, base, text),
            DataType::Octets(_) | DataType::AscendBinary | DataType::Opaque => octets(definition, base, text),
            DataType::Tlv | DataType::VendorSpecific | DataType::ExtendedVendorSpecific | DataType::Extended { .. } => {
                Err(Problem::new(
                    format!("{} only holds other attributes", definition.name),
                    "name one of those",
                ))
            }
        }
    }
}

fn is_fact(definition: &Definition, name: &str) -> bool {
    definition.parent == Parent::Internal && definition.name.eq_ignore_ascii_case(name)
}

fn parse(definition: &Definition, text: &str) -> Result<Value<'static>, Problem> {
    value::parse(definition, text)
        .map_err(|error| Problem::new(error.to_string(), format!("`portreeve dict {}`", definition.name)))
}

/// An operator that the attribute's type does not have.
fn refused(base: Base, what: &str, hint: &str) -> Problem {
    let word = Operator {
        base,
        complement: false,
    }
    .word();
    Problem::new(format!("`{word}` does not compare {what}"), hint)
}

/// A test of text; `canonical` reads a whole value (not a piece) and gives the text to compare.
fn text_test(base: Base, text: &str, canonical: impl Fn(&str) -> Result<String, Problem>) -> Result<TextTest, Problem> {
    Ok(match base {
        Base::Equals => TextTest::Equals(canonical(text)?.as_str().into()),
        Base::In => {
            let items = text::list(text)?;
            let mut items = items
                .iter()
                .map(|item| Ok(canonical(item)?.into()))
                .collect::<Result<Vec<Box<str>>, Problem>>()?;
            items.sort_unstable();
            items.dedup();
            TextTest::In(items.into())
        }
        Base::Contains => TextTest::Contains(text.into()),
        Base::StartsWith => TextTest::StartsWith(text.into()),
        Base::EndsWith => TextTest::EndsWith(text.into()),
        Base::Matches => TextTest::Matches(Box::new(pattern(text)?)),
        Base::LessThan | Base::AtMost | Base::GreaterThan | Base::AtLeast | Base::Present => {
            return Err(refused(base, "text", "numbers, dates and Time-Of-Day have an order"));
        }
    })
}

fn pattern(text: &str) -> Result<Pattern, Problem> {
    if text.len() > MAX_PATTERN {
        return Err(Problem::new(
            format!("a pattern of {} octets: at most {MAX_PATTERN}", text.len()),
            "use `in` for a list of values",
        ));
    }
    let built = RegexBuilder::new(text)
        .size_limit(MAX_COMPILED_PATTERN)
        .dfa_size_limit(MAX_COMPILED_PATTERN)
        .nest_limit(64)
        .build();
    match built {
        Ok(regex) => Ok(Pattern(regex)),
        Err(regex::Error::CompiledTooBig(_)) => Err(Problem::new(
            format!("the pattern `{text}` grows too large"),
            "fewer repetitions, or `(?-u:…)` where only ASCII is meant",
        )),
        Err(error) => {
            // The last line says what is wrong, those before it draw the place.
            let error = error.to_string();
            let what = error.lines().last().unwrap_or_default().trim_start_matches("error: ");
            Err(Problem::new(
                format!("`{text}` is no regular expression: {what}"),
                "the syntax is that of the Rust crate `regex`; write `\\.` for a dot",
            ))
        }
    }
}

fn mac_text(base: Base, text: &str) -> Result<Condition, Problem> {
    let plain = text_test(base, text, |item| Ok(item.to_owned()))?;
    let mac = match &plain {
        TextTest::Matches(_) => None,
        TextTest::In(items) => {
            let mut items: Vec<Box<str>> = items
                .iter()
                .filter_map(|item| macs::normal_value(base, item))
                .map(Into::into)
                .collect();
            items.sort_unstable();
            items.dedup();
            (!items.is_empty()).then(|| TextTest::In(items.into()))
        }
        _ => match macs::normal_value(base, text) {
            Some(normal) => Some(text_test(base, &normal, |item| Ok(item.to_owned()))?),
            None => None,
        },
    };
    Ok(Condition::MacText(Box::new((plain, mac))))
}

fn ether(definition: &Definition, base: Base, text: &str) -> Result<Condition, Problem> {
    let whole = |item: &str| match parse(definition, item)? {
        Value::Mac(mac) => Ok(mac.to_string()),
        _ => Err(Problem::new(
            format!("`{item}` is no MAC address"),
            "write `aa-bb-cc-dd-ee-ff`",
        )),
    };
    let piece = match base {
        Base::Contains | Base::StartsWith | Base::EndsWith => macs::normal_value(base, text),
        _ => None,
    };
    Ok(Condition::Mac(text_test(
        base,
        piece.as_deref().unwrap_or(text),
        whole,
    )?))
}

fn octets(definition: &Definition, base: Base, text: &str) -> Result<Condition, Problem> {
    let whole = |item: &str| match parse(definition, item)? {
        Value::Octets(octets) => Ok(Box::<[u8]>::from(&*octets)),
        _ => Err(Problem::new(format!("`{item}` is no octets"), "write `0x…`")),
    };
    // A piece need not have the length that the attribute has.
    let piece = || {
        let free = Definition {
            data_type: DataType::Octets(None),
            ..definition.clone()
        };
        match parse(&free, text)? {
            Value::Octets(octets) if !octets.is_empty() => Ok(Box::<[u8]>::from(&*octets)),
            _ => Err(Problem::new(format!("`{text}` is no octets"), "write `0x…`")),
        }
    };
    Ok(Condition::Octets(match base {
        Base::Equals => OctetsTest::In([whole(text)?].into()),
        Base::In => OctetsTest::In(
            text::list(text)?
                .iter()
                .map(|item| whole(item))
                .collect::<Result<_, _>>()?,
        ),
        Base::Contains => OctetsTest::Contains(piece()?),
        Base::StartsWith => OctetsTest::StartsWith(piece()?),
        Base::EndsWith => OctetsTest::EndsWith(piece()?),
        Base::Matches => return Err(refused(base, "octets", "use `contains`, `starts-with` or `ends-with`")),
        Base::LessThan | Base::AtMost | Base::GreaterThan | Base::AtLeast | Base::Present => {
            return Err(refused(base, "octets", "numbers, dates and Time-Of-Day have an order"));
        }
    }))
}

fn number_test(base: Base, text: &str, read: impl Fn(&str) -> Result<i128, Problem>) -> Result<NumberTest, Problem> {
    Ok(match base {
        Base::In => {
            let mut numbers = text::list(text)?
                .iter()
                .map(|item| read(item))
                .collect::<Result<Vec<i128>, _>>()?;
            numbers.sort_unstable();
            numbers.dedup();
            NumberTest::In(numbers.into())
        }
        Base::LessThan => NumberTest::LessThan(read(text)?.into()),
        Base::AtMost => NumberTest::AtMost(read(text)?.into()),
        Base::GreaterThan => NumberTest::GreaterThan(read(text)?.into()),
        Base::AtLeast => NumberTest::AtLeast(read(text)?.into()),
        Base::Equals => NumberTest::Equals(read(text)?.into()),
        Base::Contains | Base::StartsWith | Base::EndsWith | Base::Matches | Base::Present => {
            return Err(refused(base, "numbers", "use `==`, `in` or `<`"));
        }
    })
}

fn number(definition: &Definition, base: Base, text: &str) -> Result<Condition, Problem> {
    if !matches!(base, Base::Contains | Base::StartsWith | Base::EndsWith | Base::Matches) {
        let read = |item: &str| {
            as_number(&parse(definition, item)?)
                .ok_or_else(|| Problem::new(format!("`{item}` is no number"), "write a number or its name"))
        };
        return Ok(Condition::Number(number_test(base, text, read)?));
    }
    if definition.data_type == DataType::Date {
        return Err(refused(base, "dates", "use `==`, `<`, `<=`, `>` or `>=`"));
    }
    let test = text_test(base, text, |item| Ok(item.to_owned()))?;
    // The name that is displayed is the one that is compared.
    let mut named: Vec<(i128, bool)> = Vec::new();
    for (_, number) in &definition.values {
        let value = match (definition.data_type, u64::try_from(*number)) {
            (DataType::Signed, _) => Value::Signed(*number),
            (_, Ok(number)) => Value::Unsigned(number),
            (_, Err(_)) => continue,
        };
        named.push(((*number).into(), test.holds(&value::display(definition, &value))));
    }
    named.sort_unstable();
    named.dedup();
    Ok(Condition::NumberText(Box::new((named, test))))
}

fn address(definition: &Definition, base: Base, text: &str) -> Result<Condition, Problem> {
    match base {
        Base::Equals if text.contains('/') => Err(Problem::new(
            format!("`{text}` is a network, and `equals` compares with one address"),
            "write `in` for a network",
        )),
        Base::Equals => match parse(definition, text)? {
            Value::Address(address) => Ok(Condition::Networks([IpNet::from(address)].into())),
            _ => Err(Problem::new(
                format!("`{text}` is no address"),
                "write `in` for a network",
            )),
        },
        Base::In => networks(definition, text),
        Base::Contains | Base::StartsWith | Base::EndsWith | Base::Matches => {
            Ok(Condition::Displayed(text_test(base, text, |item| Ok(item.to_owned()))?))
        }
        Base::LessThan | Base::AtMost | Base::GreaterThan | Base::AtLeast | Base::Present => Err(refused(
            base,
            "addresses",
            "use `in` with networks, as in `in 10.0.0.0/8`",
        )),
    }
}

fn networks(definition: &Definition, text: &str) -> Result<Condition, Problem> {
    let family = match definition.data_type {
        DataType::Ipv4 | DataType::Ipv4Prefix => Some(4),
        DataType::Ipv6 | DataType::Ipv6Prefix => Some(6),
        _ => None,
    };
    let read = |item: &String| {
        let network = match item.parse::<IpNet>() {
            Ok(network) => network,
            Err(_) => IpNet::from(item.parse::<IpAddr>().map_err(|_| {
                Problem::new(
                    format!("`{item}` is neither address nor network"),
                    "write `10.0.0.0/8` or `10.0.0.1`",
                )
            })?),
        };
        let found = if matches!(network, IpNet::V4(_)) { 4 } else { 6 };
        if family.is_some_and(|family| family != found) {
            return Err(Problem::new(
                format!(
                    "`{item}` is an IPv{found} network, which {} never is in",
                    definition.name
                ),
                "leave it out",
            ));
        }
        if network.trunc() != network {
            return Err(Problem::new(
                format!("`{item}` has bits behind its prefix length"),
                format!("write `{}` for the network, or the address alone", network.trunc()),
            ));
        }
        Ok(network)
    };
    Ok(Condition::Networks(
        text::list(text)?.iter().map(read).collect::<Result<_, _>>()?,
    ))
}

fn time(base: Base, text: &str) -> Result<Condition, Problem> {
    let read = |item: &str| {
        minutes(item)
            .ok_or_else(|| Problem::new(format!("`{item}` is no time of day"), "write `HH:MM`, 00:00 to 23:59"))
    };
    match base {
        Base::Contains | Base::StartsWith | Base::EndsWith | Base::Matches => {
            Err(refused(base, "times", "use `<`, `<=`, `>` or `>=`"))
        }
        _ => Ok(Condition::Time(number_test(base, text, read)?)),
    }
}

fn day(base: Base, text: &str) -> Result<Condition, Problem> {
    const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
    let read = |item: &str| match DAYS.contains(&item) {
        true => Ok(item.to_owned()),
        false => Err(Problem::new(
            format!("`{item}` is no day of the week"),
            format!("one of {}", DAYS.join(", ")),
        )),
    };
    match base {
        Base::Equals | Base::In => Ok(Condition::Text(text_test(base, text, read)?)),
        _ => Err(refused(base, "days", "use `==` or `in`, as in `in mon, tue`")),
    }
}
