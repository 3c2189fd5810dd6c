//! Network namespaces joined by links of a chosen MTU. A test includes this file by its path.
//!
//! They need root and `ip` (Debian: `iproute2`); without them the tests fail and say so.

use std::fs::File;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sched::{CloneFlags, setns};

pub type Fallible<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// A network namespace, gone when dropped.
pub struct Namespace(String);

impl Namespace {
    pub fn new() -> Fallible<Namespace> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let needs = "this test makes network namespaces: it must run as root, with `ip` (Debian: iproute2) installed";
        if !nix::unistd::geteuid().is_root() {
            return Err(format!("{needs}; it does not run as root").into());
        }
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("portreeve-{}-{number}", std::process::id());
        ip(&format!("netns add {name}")).map_err(|error| format!("{needs}; {error}"))?;
        let namespace = Namespace(name);
        namespace.ip("link set lo up")?;
        Ok(namespace)
    }

    pub fn ip(&self, arguments: &str) -> Fallible<()> {
        ip(&format!("-n {} {arguments}", self.0))
    }

    /// Gives one end of a link its addresses. IPv6 is usable at once, without the search for duplicates.
    pub fn up(&self, interface: &str, mtu: u32, addresses: &[&str]) -> Fallible<()> {
        for address in addresses {
            let nodad = if address.contains(':') { "nodad" } else { "" };
            self.ip(&format!("address add {address} dev {interface} {nodad}"))?;
        }
        self.ip(&format!("link set {interface} mtu {mtu} up"))
    }

    /// Runs a function inside; sockets made there stay there.
    pub fn within<T: Send>(&self, run: impl FnOnce() -> Fallible<T> + Send) -> Fallible<T> {
        let namespace = File::open(format!("/run/netns/{}", self.0))?;
        let inside = || {
            setns(&namespace, CloneFlags::CLONE_NEWNET)?;
            run()
        };
        std::thread::scope(|scope| scope.spawn(inside).join()).map_err(|_| "the thread in the namespace panicked")?
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = ip(&format!("netns delete {}", self.0));
    }
}

/// A link: `right` is the interface of the left namespace, and the other way round.
pub fn link(left: &Namespace, right: &Namespace) -> Fallible<()> {
    ip(&format!(
        "link add right netns {} type veth peer name left netns {}",
        left.0, right.0
    ))
}

fn ip(arguments: &str) -> Fallible<()> {
    let output = Command::new("ip").args(arguments.split_whitespace()).output();
    let output = output.map_err(|error| format!("cannot run `ip`: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("`ip {arguments}`: {}", String::from_utf8_lossy(&output.stderr).trim()).into())
}
