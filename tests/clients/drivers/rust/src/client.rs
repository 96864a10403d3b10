//! The interface of the client libraries.

use crate::options::Options;
use std::fmt::Display;
use std::future::Future;

/// The five integers of a reply to CL.THROTTLE.
pub type Decision = Vec<i64>;

/// A call of CL.THROTTLE.
#[derive(Clone)]
pub struct Throttle {
    pub key: String,
    pub max_burst: &'static str,
    pub count: u32,
    pub period: u32, // in seconds
}

impl Throttle {
    pub fn args(&self) -> [String; 4] {
        [self.key.clone(), self.max_burst.to_string(), self.count.to_string(), self.period.to_string()]
    }
}

/// A client library. Clones of a client are the same client.
pub trait Client: Clone + Send + Sync + Sized + 'static {
    /// The error type of the library.
    type Error: Display + Send + 'static;

    fn open(options: &Options) -> impl Future<Output = Result<Self, Self::Error>> + Send;

    fn throttle(&self, call: Throttle) -> impl Future<Output = Result<Decision, Self::Error>> + Send;

    /// Makes a call n times in one pipeline.
    fn pipeline(&self, call: Throttle, n: usize) -> impl Future<Output = Result<Vec<Decision>, Self::Error>> + Send;

    /// Makes a call n times in one transaction.
    fn transaction(&self, call: Throttle, n: usize) -> impl Future<Output = Result<Vec<Decision>, Self::Error>> + Send;
}
