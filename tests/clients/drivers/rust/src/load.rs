//! Counts calls.

use crate::client::{Client, Throttle};
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const BEGUN: u64 = 100; // successful calls
const LONGEST_ERROR: usize = 200; // characters

struct Counts {
    calls: u64,
    succeeded: u64,
    last: Instant,
    gap: Duration,
}

/// The errors of a caller, by text.
pub type Errors = BTreeMap<String, u64>;

/// The calls of all callers.
#[derive(Clone)]
pub struct Load(Arc<Mutex<Counts>>);

impl Load {
    pub fn new() -> Load {
        Load(Arc::new(Mutex::new(Counts { calls: 0, succeeded: 0, last: Instant::now(), gap: Duration::ZERO })))
    }

    /// Makes the calls of one caller until the file exists, and returns its errors.
    pub async fn run<C: Client>(&self, client: &C, call: &Throttle, until: &str) -> Errors {
        let mut errors = Errors::new();
        while !std::path::Path::new(until).exists() {
            self.note(client.throttle(call.clone()).await.map_err(|e| e.to_string()), &mut errors);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        errors
    }

    fn note<T>(&self, result: Result<T, String>, errors: &mut Errors) {
        let mut counts = self.0.lock().unwrap();
        counts.calls += 1;
        if let Err(text) = result {
            *errors.entry(text.chars().take(LONGEST_ERROR).collect()).or_default() += 1;
            return;
        }
        let now = Instant::now();
        counts.gap = counts.gap.max(now - counts.last);
        counts.last = now;
        counts.succeeded += 1;
        if counts.succeeded == BEGUN {
            crate::write(json!({"check": "load", "event": "begun"}));
        }
    }

    /// Returns the fields of the result, with the errors of each caller.
    pub fn fields(&self, errors: Vec<Errors>, repeated: u64) -> Value {
        let counts = self.0.lock().unwrap();
        let silent = counts.last.elapsed();
        json!({
            "calls": counts.calls, "errors": errors, "repeated": repeated,
            "gap_ms": milliseconds(counts.gap.max(silent)), "last_ms": milliseconds(silent),
        })
    }
}

fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 10_000.0).round() / 10.0
}
