//! An HTTP server on loopback in place of a cloud.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A request that the endpoint received.
#[derive(Clone, Debug, Default)]
pub(crate) struct SeenRequest {
    pub(crate) method: String,
    pub(crate) path: String,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl SeenRequest {
    pub(crate) fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str()).unwrap_or_default()
    }

    /// A field of the form or of the query, percent-encoded as it was sent.
    pub(crate) fn field(&self, name: &str) -> &str {
        let query = self.path.split_once('?').map_or("", |(_, query)| query);
        let pairs = self.body.split('&').chain(query.split('&')).filter_map(|pair| pair.split_once('='));
        pairs.into_iter().find(|(known, _)| *known == name).map(|(_, value)| value).unwrap_or_default()
    }
}

#[derive(Clone)]
pub(crate) enum FakeReply {
    /// Status and body.
    Status(u16, String),
    /// Status, name and value of a header, and body.
    WithHeader(u16, &'static str, String, String),
    /// A body of 50 MB.
    Flood,
    /// No response until the client disconnects.
    Silence,
}

/// An HTTP server on loopback with a thread for each connection.
pub(crate) struct FakeEndpoint {
    pub(crate) url: String,
    seen: Arc<Mutex<Vec<SeenRequest>>>,
}

impl FakeEndpoint {
    pub(crate) fn start(answer: impl Fn(&SeenRequest) -> FakeReply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::<Mutex<Vec<SeenRequest>>>::default();
        let (answer, record) = (Arc::new(answer), Arc::clone(&seen));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (answer, record) = (Arc::clone(&answer), Arc::clone(&record));
                std::thread::spawn(move || serve(stream, &*answer, &record));
            }
        });
        Self { url, seen }
    }

    pub(crate) fn seen(&self) -> Vec<SeenRequest> {
        self.seen.lock().unwrap().clone()
    }
}

/// Serves one request per connection.
fn serve(mut stream: TcpStream, answer: &dyn Fn(&SeenRequest) -> FakeReply, record: &Mutex<Vec<SeenRequest>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    if reader.read_line(&mut line).unwrap_or_default() == 0 {
        return;
    }
    let mut words = line.split_whitespace();
    let mut seen = SeenRequest {
        method: words.next().unwrap_or_default().to_owned(),
        path: words.next().unwrap_or_default().to_owned(),
        ..SeenRequest::default()
    };
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        seen.headers.push((name.to_owned(), value.trim().to_owned()));
    }
    let mut body = vec![0; seen.header("content-length").parse().unwrap_or_default()];
    reader.read_exact(&mut body).unwrap();
    seen.body = String::from_utf8(body).unwrap();
    record.lock().unwrap().push(seen.clone());
    match answer(&seen) {
        FakeReply::Status(status, body) => send(&mut stream, status, "", "", &body),
        FakeReply::WithHeader(status, name, value, body) => send(&mut stream, status, name, &value, &body),
        FakeReply::Flood => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 52428800\r\n\r\n");
            let block = [b'x'; 1 << 16];
            while stream.write_all(&block).is_ok() {}
        }
        // Until the client disconnects.
        FakeReply::Silence => drop(reader.read(&mut [0])),
    }
}

fn send(stream: &mut TcpStream, status: u16, name: &str, value: &str, body: &str) {
    let extra = if name.is_empty() { String::new() } else { format!("{name}: {value}\r\n") };
    let head = format!("HTTP/1.1 {status} X\r\n{extra}Content-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    // The client may have disconnected.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
}
