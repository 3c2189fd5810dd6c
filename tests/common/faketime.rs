//! A clock for a program that was written without one in mind: libfaketime, told by a file, so that it can be moved while
//! the program runs. The monotonic clock goes on as it is.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use tempfile::TempDir;

/// Clocks by name.
pub struct Clocks(TempDir);

impl Clocks {
    pub fn new() -> Clocks {
        let folder = TempDir::new().unwrap();
        // a server of another user reads it
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        Clocks(folder)
    }

    /// Moves a clock: `+1d` by so much from the right time, `@1970-01-01 00:10:00` to that time, from which it goes on.
    pub fn set(&self, name: &str, time: &str) {
        let new = self.0.path().join("new");
        fs::write(&new, time).unwrap();
        fs::rename(&new, self.0.path().join(name)).unwrap();
    }

    /// What puts a program under a clock, which is right at first.
    pub fn variables(&self, name: &str) -> [(&'static str, String); 4] {
        self.set(name, "+0");
        [
            ("LD_PRELOAD", library()),
            (
                "FAKETIME_TIMESTAMP_FILE",
                self.0.path().join(name).display().to_string(),
            ),
            ("FAKETIME_NO_CACHE", "1".to_owned()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
        ]
    }
}

/// Where Debian's `faketime` has its library.
fn library() -> String {
    let folders = fs::read_dir("/usr/lib").unwrap().map(|entry| entry.unwrap().path());
    let mut libraries = folders.map(|folder| folder.join("faketime/libfaketimeMT.so.1"));
    let library = libraries.find(|library| library.exists());
    library
        .expect("no libfaketime; hint: on Debian: apt-get install faketime")
        .display()
        .to_string()
}
