//! Versions, serial numbers and validity.

use crate::der::*;
use crate::shape::{Shape, World};

pub fn all(world: &World) -> Vec<Shape> {
    let mut shapes = versions(world);
    shapes.extend(serials(world));
    shapes.extend(times(world));
    shapes
}

fn versions(world: &World) -> Vec<Shape> {
    let version = |name, octets: &[u8]| {
        let octets = octets.to_vec();
        world.shape(name, move |parts| parts.version = explicit(0, &[&integer(&octets)]))
    };
    let bare = |name, version: Vec<u8>| {
        world.shape(name, |parts| {
            parts.version = version;
            parts.instead_of_extensions = Some(Vec::new());
        })
    };
    vec![
        world.shape("plain", |_| ()),
        bare("version-1", Vec::new()),
        bare("version-1-written", explicit(0, &[&integer(&[0])])),
        world.shape("version-1-with-extensions", |parts| parts.version = Vec::new()),
        bare("version-2", explicit(0, &[&integer(&[1])])),
        version("version-2-with-extensions", &[1]),
        version("version-4", &[3]),
        version("version-negative", &[0xFF]),
        version("version-in-two-octets", &[0, 2]),
        bare("version-3-without-extensions", explicit(0, &[&integer(&[2])])),
    ]
}

fn serials(world: &World) -> Vec<Shape> {
    let serial = |name, octets: &[u8]| {
        let octets = octets.to_vec();
        world.shape(name, move |parts| parts.serial = integer(&octets))
    };
    vec![
        serial("serial-zero", &[0]),
        serial("serial-negative", &[0xB7, 0x01]),
        serial("serial-20-octets", &[&[0x7F][..], &[0xFF; 19]].concat()),
        serial("serial-21-octets", &[&[0][..], &[0xFF; 20]].concat()),
        serial("serial-40-octets", &[0x2A; 40]),
        serial("serial-1000-octets", &[0x2A; 1_000]),
        serial("serial-padded", &[0, 0, 0x2A]),
        serial("serial-empty", &[]),
    ]
}

fn times(world: &World) -> Vec<Shape> {
    let of = |name, from: Vec<u8>, until: Vec<u8>| {
        world.shape(name, move |parts| parts.validity = sequence(&[&from, &until]))
    };
    let from = || utc_time("261015080000Z");
    let until = || utc_time("271015080000Z");
    vec![
        of("until-now", from(), utc_time("270115080000Z")),
        of("until-a-second-ago", from(), utc_time("270115075959Z")),
        of("until-yesterday", from(), utc_time("270114080000Z")),
        of("until-1999", utc_time("980101000000Z"), utc_time("991231235959Z")),
        of("from-now", utc_time("270115080000Z"), until()),
        of("from-in-a-second", utc_time("270115080001Z"), until()),
        of("from-next-year", utc_time("280115080000Z"), utc_time("290115080000Z")),
        of("for-one-second", utc_time("270115080000Z"), utc_time("270115080000Z")),
        of("ends-before-it-begins", until(), from()),
        of("from-1970", utc_time("700101000000Z"), until()),
        of("from-1969", utc_time("691231235959Z"), until()),
        of("from-1950", utc_time("500101000000Z"), until()),
        of("from-the-year-1", generalized_time("00010101000000Z"), until()),
        of("until-2049", from(), utc_time("491231235959Z")),
        of("until-2050", from(), generalized_time("20500101000000Z")),
        of("until-9999", from(), generalized_time("99991231235959Z")),
        of(
            "generalized-before-2050",
            generalized_time("20261015080000Z"),
            generalized_time("20271015080000Z"),
        ),
        of("utc-without-seconds", from(), utc_time("2710150800Z")),
        of("utc-with-offset", from(), utc_time("271015080000+0100")),
        of("utc-without-zone", from(), utc_time("271015080000")),
        of("utc-with-four-digit-year", from(), utc_time("20271015080000Z")),
        of(
            "generalized-with-fraction",
            from(),
            generalized_time("20271015080000.5Z"),
        ),
        of("generalized-without-zone", from(), generalized_time("20271015080000")),
        of("on-february-30", from(), utc_time("280230080000Z")),
        of("on-february-29", from(), utc_time("280229080000Z")),
        of("at-24-hours", from(), utc_time("271015240000Z")),
        of("at-a-leap-second", from(), utc_time("271231235960Z")),
        of("until-a-text", from(), printable("never")),
        of("until-nothing", from(), Vec::new()),
        of("until-twice", from(), [until(), until()].concat()),
    ]
}
