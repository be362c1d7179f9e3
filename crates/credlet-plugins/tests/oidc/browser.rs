//! A person with a browser, in the place of the system's starter of programs.

use std::fmt;
use std::future::Future;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use credlet_core::{Ended, Finished, Program, RunError, Runner};
use tokio::sync::watch;
use zeroize::Zeroizing;

/// Follows every link to its end, as browsers do.
#[derive(Clone)]
pub(crate) struct Browser {
    /// All words of every program that was started.
    pub(crate) started: Arc<Mutex<Vec<Vec<String>>>>,
    /// The last page of every visit.
    pub(crate) pages: watch::Sender<Vec<String>>,
    /// Whether anybody looks at the window.
    pub(crate) attended: bool,
}

impl Default for Browser {
    fn default() -> Self {
        Self { started: Arc::default(), pages: watch::Sender::new(Vec::new()), attended: true }
    }
}

impl Browser {
    pub(crate) fn windows(&self) -> usize {
        self.started.lock().unwrap().len()
    }

    /// The only page that was shown.
    pub(crate) async fn page(&self) -> String {
        let mut pages = self.pages.subscribe();
        let pages = pages.wait_for(|pages| !pages.is_empty()).await.unwrap();
        assert_eq!(pages.len(), 1);
        pages[0].clone()
    }
}

impl Runner for Browser {
    fn run(&self, program: Program) -> Pin<Box<dyn Future<Output = Result<Finished, RunError>> + Send + '_>> {
        let url = program.args.last().unwrap().clone();
        self.started.lock().unwrap().push(program.args);
        if self.attended {
            let pages = self.pages.clone();
            std::thread::spawn(move || {
                let page = follow(&url);
                pages.send_modify(|pages| pages.push(page));
            });
        }
        let finished = Finished { ended: Ended::Exited(0), stdout: Zeroizing::default(), stderr: Zeroizing::default() };
        Box::pin(async { Ok(finished) })
    }
}

impl fmt::Debug for Browser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Browser")
    }
}

fn follow(url: &str) -> String {
    let mut url = url.to_owned();
    loop {
        let answer = get(&url, "sec-fetch-dest: document\r\n");
        match answer.lines().find_map(|line| line.strip_prefix("location: ")) {
            Some(to) => url = to.to_owned(),
            None => return answer,
        }
    }
}

/// Head and body of the answer.
pub(crate) fn get(url: &str, headers: &str) -> String {
    let rest = url.strip_prefix("http://").unwrap();
    let (host, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    let mut stream = TcpStream::connect(host.replace("localhost", "127.0.0.1")).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{headers}\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}
