//! The command line.

use std::collections::HashMap;

/// The options, each "--name value". Options that are absent are None.
#[derive(Clone)]
pub struct Options {
    values: HashMap<String, String>,
}

impl Options {
    pub fn parse() -> Options {
        let words: Vec<String> = std::env::args().skip(1).collect();
        let values = words
            .chunks(2)
            .map(|pair| (pair[0].trim_start_matches("--").to_string(), pair.get(1).cloned().unwrap_or_default()))
            .collect();
        Options { values }
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    pub fn addresses(&self) -> Vec<(String, u16)> {
        let list = self.get("addr").unwrap_or_default().split(',');
        list.filter_map(|address| address.rsplit_once(':').map(|(host, port)| (host.to_string(), port.parse().expect("a port")))).collect()
    }

    pub fn mode(&self) -> &str {
        self.get("mode").unwrap_or("standalone")
    }

    pub fn resp3(&self) -> Option<bool> {
        self.get("resp").map(|version| version == "3")
    }

    pub fn callers(&self) -> usize {
        self.get("callers").map_or(1, |n| n.parse().expect("a number of callers"))
    }

    /// Returns the text of the file with the CA certificate.
    pub fn ca(&self) -> Option<Vec<u8>> {
        self.get("tls-ca").map(|path| std::fs::read(path).expect("a file with the CA certificate"))
    }

    /// Returns these options with a different password.
    pub fn with_password(&self, password: &str) -> Options {
        let mut changed = self.clone();
        changed.values.insert("password".to_string(), password.to_string());
        changed
    }
}
