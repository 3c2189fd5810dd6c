//! Processes, as `/proc` has them.

use std::fs;

use nix::unistd::Pid;

/// Whether a process runs: an ended one that nobody waited for does not.
pub fn is_alive(process: Pid) -> bool {
    stat(process).is_some_and(|(state, _)| state != "Z")
}

/// Its children, by what `/proc` says now.
pub fn children(parent: Pid) -> Vec<Pid> {
    let all = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    all.map(Pid::from_raw)
        .filter(|process| stat(*process).is_some_and(|(_, of)| of == parent))
        .collect()
}

/// State and parent, of `/proc`; the name before them may have any octet in it.
fn stat(process: Pid) -> Option<(String, Pid)> {
    let stat = fs::read(format!("/proc/{process}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    Some((fields.next()?.to_owned(), Pid::from_raw(fields.next()?.parse().ok()?)))
}
