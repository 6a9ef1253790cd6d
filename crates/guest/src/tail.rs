//! The end of a text that another user writes: console, error messages.

use std::io::Read;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// What is kept, bytes: a panic with its registers and call trace.
const KEPT: usize = 16 << 10;

/// Reads to the end in a thread of its own, so that the writer never waits.
pub(super) struct Tail {
    text: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Tail {
    pub fn of(mut source: impl Read + Send + 'static) -> Tail {
        let text = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&text);
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            loop {
                let got = match source.read(&mut bytes) {
                    Ok(0) => return,
                    Ok(got) => got,
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                    Err(_) => return,
                };
                let mut text = shared.lock().unwrap_or_else(|e| e.into_inner());
                text.extend(&bytes[..got]);
                let surplus = text.len().saturating_sub(KEPT);
                text.drain(..surplus);
            }
        });
        Tail { text, reader: Some(reader) }
    }

    /// What was written last, without the terminal's control characters.
    pub fn text(&self) -> String {
        let bytes = self.text.lock().unwrap_or_else(|e| e.into_inner()).clone();
        let text = String::from_utf8_lossy(&bytes).replace("\r\n", "\n");
        text.chars().filter(|c| *c == '\n' || *c == '\t' || !c.is_control()).collect()
    }

    /// Waits for the end of the source.
    pub fn finish(&mut self) {
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}
