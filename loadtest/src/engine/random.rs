//! Authenticators for requests.

use anyhow::anyhow;
use portreeve::eap::tls::provider;

/// Random octets, taken from the system's generator in larger pieces. They go over the network: nothing here is secret.
pub struct Random {
    octets: [u8; 1024],
    used: usize,
}

impl Default for Random {
    fn default() -> Random {
        Random {
            octets: [0; 1024],
            used: 1024,
        }
    }
}

impl Random {
    pub fn next(&mut self) -> anyhow::Result<[u8; 16]> {
        if self.used >= self.octets.len() {
            let filled = provider().secure_random.fill(&mut self.octets);
            filled.map_err(|_| anyhow!("the system gives no random numbers"))?;
            self.used = 0;
        }
        let next = self.octets.get(self.used..self.used + 16);
        self.used += 16;
        Ok(next.and_then(|octets| octets.try_into().ok()).unwrap_or_default())
    }
}
