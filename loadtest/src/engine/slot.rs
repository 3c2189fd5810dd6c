//! A port of the switch, and the device at it.

use std::time::Instant;

use portreeve::nas::Attempt;

use crate::fleet::Device;

pub struct Slot<'f> {
    pub port_attributes: Vec<u8>,
    pub device: Device<'f>,
    /// The authentication under way.
    pub attempt: Option<Attempt>,
    /// The source that its requests leave from.
    pub lane: usize,
    pub identifier: u8,
    /// The request that is waited on.
    pub packet: Vec<u8>,
    /// When the device had to begin, if a schedule says so.
    pub due: Option<Instant>,
    /// When its first request left.
    pub began: Instant,
    /// When the request was sent last.
    pub sent: Instant,
    pub transmissions: u32,
    /// Of the profile, when the device began.
    pub phase: usize,
    /// Users then.
    pub users: u32,
    is_first: bool,
}

impl<'f> Slot<'f> {
    pub fn new(port_attributes: Vec<u8>, device: Device<'f>) -> Slot<'f> {
        let now = Instant::now();
        Slot {
            port_attributes,
            device,
            attempt: None,
            lane: 0,
            identifier: 0,
            packet: Vec::new(),
            due: None,
            began: now,
            sent: now,
            transmissions: 0,
            phase: 0,
            users: 0,
            is_first: true,
        }
    }

    pub fn begin(&mut self, device: Device<'f>, attempt: Attempt, lane: usize, phase: usize, users: u32) {
        self.device = device;
        self.attempt = Some(attempt);
        self.lane = lane;
        self.phase = phase;
        self.users = users;
        self.due = None;
        self.is_first = true;
    }

    /// Its request leaves.
    pub fn transmitted(&mut self, now: Instant) {
        if self.is_first {
            self.is_first = false;
            self.began = now;
        }
        self.sent = now;
        self.transmissions += 1;
    }
}
