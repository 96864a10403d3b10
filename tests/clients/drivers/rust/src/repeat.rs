//! Repeats the calls of libraries that do not repeat them, and counts the calls that are repeated.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The time for which a call is repeated.
const LIMIT: Duration = Duration::from_secs(5);

/// The pause between two attempts.
pub const PAUSE: Duration = Duration::from_millis(20);

static REPEATED: AtomicU64 = AtomicU64::new(0);

/// Returns the number of calls that the library failed and this program repeated.
pub fn repeated() -> u64 {
    REPEATED.load(Ordering::Relaxed)
}

/// The attempts of one call.
pub struct Attempts {
    deadline: Instant,
    counted: bool,
}

impl Attempts {
    pub fn new() -> Attempts {
        Attempts { deadline: Instant::now() + LIMIT, counted: false }
    }

    /// Reports whether the program repeats a call that has failed. The first time, it counts the call.
    pub fn again(&mut self) -> bool {
        if Instant::now() > self.deadline {
            return false;
        }
        if !std::mem::replace(&mut self.counted, true) {
            REPEATED.fetch_add(1, Ordering::Relaxed);
        }
        true
    }
}
