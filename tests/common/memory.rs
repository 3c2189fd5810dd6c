//! How much memory a process has, from Linux. A test includes this file by its path.

/// Octets that are resident now; none: there is no such process.
pub fn resident_octets(process: u32) -> Option<usize> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: usize = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kib << 10)
}
