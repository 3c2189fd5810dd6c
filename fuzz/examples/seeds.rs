//! Writes the seeds of every target into `corpus/`: `cargo run --example seeds`.

#![expect(dead_code, reason = "the seeds alone are wanted")]

#[path = "../targets/dictionary.rs"]
mod dictionary;
#[path = "../targets/eap.rs"]
mod eap;
#[path = "../targets/older_dump.rs"]
mod older_dump;
#[path = "../targets/packet.rs"]
mod packet;
#[path = "../targets/policy_text.rs"]
mod policy_text;
#[path = "../targets/ticket.rs"]
mod ticket;
#[path = "../targets/tls_reassembly.rs"]
mod tls_reassembly;
#[path = "../targets/tunnel.rs"]
mod tunnel;

fn main() -> std::io::Result<()> {
    for (name, seeds) in [
        ("packet", packet::seeds()),
        ("dictionary", dictionary::seeds()),
        ("eap", eap::seeds()),
        ("ticket", ticket::seeds()),
        ("tls_reassembly", tls_reassembly::seeds()),
        ("tunnel", tunnel::seeds()),
        ("policy_text", policy_text::seeds()),
        ("older_dump", older_dump::seeds()),
    ] {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("corpus")
            .join(name);
        std::fs::create_dir_all(&folder)?;
        for (at, seed) in seeds.iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{at:03}")), seed)?;
        }
        println!("{name}: {} seeds", seeds.len());
    }
    Ok(())
}
