//! What is fuzzed (`fuzz/`), as a test: over the seeds, over simple mutations of them, and over what fuzzing has found
//! (`tests/found/`), which must never come back.

#[cfg(test)]
#[path = "../fuzz/targets/dictionary.rs"]
mod dictionary;
#[cfg(test)]
#[path = "../fuzz/targets/eap.rs"]
mod eap;
#[cfg(test)]
#[path = "../fuzz/targets/older_dump.rs"]
mod older_dump;
#[cfg(test)]
#[path = "../fuzz/targets/packet.rs"]
mod packet;
#[cfg(test)]
#[path = "../fuzz/targets/policy_text.rs"]
mod policy_text;
#[cfg(test)]
#[path = "../fuzz/targets/ticket.rs"]
mod ticket;
#[cfg(test)]
#[path = "../fuzz/targets/tls_reassembly.rs"]
mod tls_reassembly;
#[cfg(test)]
#[path = "../fuzz/targets/tunnel.rs"]
mod tunnel;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Runs a target over its seeds, `mutations` of each, and what was found.
    fn run(name: &str, fuzz: fn(&[u8]), seeds: Vec<Vec<u8>>, mutations: u64) {
        assert!(seeds.len() >= 5, "{} seeds of {name}", seeds.len());
        // the constants of splitmix64: spread out, the same in each run
        let mut state: u64 = 0x9E37_79B9_7F4A_7C15;
        let mut random = move |below: usize| {
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            usize::try_from(mixed >> 33).unwrap() % below.max(1)
        };
        for seed in &seeds {
            fuzz(seed);
            for _ in 0..mutations {
                let mut mutated = seed.clone();
                for _ in 0..=random(3) {
                    let at = random(mutated.len());
                    match (random(4), mutated.get_mut(at)) {
                        (0, Some(octet)) => *octet ^= 1 << random(8),
                        (1, Some(octet)) => *octet = random(256) as u8,
                        (2, _) => mutated.truncate(at),
                        _ => mutated.insert(at, random(256) as u8),
                    }
                }
                fuzz(&mutated);
            }
        }
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/found").join(name);
        for entry in folder.read_dir().into_iter().flatten() {
            let path = entry.unwrap().path();
            println!("{}", path.display());
            fuzz(&std::fs::read(path).unwrap());
        }
    }

    #[test]
    fn packets() {
        run("packet", packet::fuzz, packet::seeds(), 20);
    }

    #[test]
    fn dictionaries() {
        run("dictionary", dictionary::fuzz, dictionary::seeds(), 10);
    }

    #[test]
    fn conversations() {
        run("eap", eap::fuzz, eap::seeds(), 4);
    }

    #[test]
    fn tickets() {
        run("ticket", ticket::fuzz, ticket::seeds(), 20);
    }

    #[test]
    fn fragments() {
        run("tls_reassembly", tls_reassembly::fuzz, tls_reassembly::seeds(), 200);
    }

    #[test]
    fn words_inside_a_tunnel() {
        run("tunnel", tunnel::fuzz, tunnel::seeds(), 400);
    }

    #[test]
    fn policies() {
        run("policy_text", policy_text::fuzz, policy_text::seeds(), 5);
    }

    #[test]
    fn dumps() {
        run("older_dump", older_dump::fuzz, older_dump::seeds(), 40);
    }
}
