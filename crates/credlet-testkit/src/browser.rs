//! A minimal browser (cookies, redirects), and requests from another user of the machine.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

/// The uid used as another local user. Only root can start processes with it.
pub const OTHER_USER: u32 = 2002;

/// A browser profile: follows redirects and sends cookies back to the host that set them, whatever the port.
#[derive(Default)]
pub struct BrowserProfile(Vec<(String, String)>);

impl BrowserProfile {
    /// Follows redirects. Returns head and body of the final response.
    pub fn follow(&mut self, url: &str) -> String {
        let mut url = url.to_owned();
        loop {
            let response = self.get(&url);
            match location(&response) {
                Some(to) => url = to,
                None => return response,
            }
        }
    }

    /// Follows redirects. Returns the first URL that starts with `prefix`, without requesting it.
    pub fn follow_to(&mut self, url: &str, prefix: &str) -> String {
        let mut url = url.to_owned();
        while !url.starts_with(prefix) {
            let response = self.get(&url);
            url = location(&response).unwrap_or_else(|| panic!("no redirect to {prefix}: {response}"));
        }
        url
    }

    /// Performs one top-level navigation, without redirects.
    pub fn get(&mut self, url: &str) -> String {
        let host = host(url);
        let cookies = self.0.iter().filter(|(of, _)| *of == host).map(|(_, pair)| pair.as_str()).collect::<Vec<_>>();
        let cookies = if cookies.is_empty() { String::new() } else { format!("cookie: {}\r\n", cookies.join("; ")) };
        let response = get(url, &format!("sec-fetch-dest: document\r\n{cookies}"));
        for cookie in response.lines().filter_map(|line| line.strip_prefix("set-cookie: ")) {
            let (pair, attributes) = cookie.split_once(';').expect("a loopback peer of this test");
            let (name, _) = pair.split_once('=').expect("a loopback peer of this test");
            self.0.retain(|(of, known)| *of != host || !known.starts_with(&format!("{name}=")));
            if !attributes.contains("Max-Age=0") {
                self.0.push((host.clone(), pair.to_owned()));
            }
        }
        response
    }
}

/// Returns the `Location` header of a response.
pub fn location(response: &str) -> Option<String> {
    response.lines().find_map(|line| line.strip_prefix("location: ")).map(str::to_owned)
}

fn host(url: &str) -> String {
    let rest = url.strip_prefix("http://").expect("a loopback peer of this test");
    let authority = &rest[..rest.find(['/', '?']).unwrap_or(rest.len())];
    authority.rsplit_once(':').expect("a loopback peer of this test").0.to_owned()
}

/// Returns head and body of the response, empty if the connection was closed.
pub fn get(url: &str, headers: &str) -> String {
    let rest = url.strip_prefix("http://").expect("a loopback peer of this test");
    let (host, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    let mut stream = TcpStream::connect(host.replace("localhost", "127.0.0.1")).expect("a loopback peer of this test");
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{headers}\r\n")
        .expect("a loopback peer of this test");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("a loopback peer of this test");
    response
}

/// Returns whether this test can start processes of another user. Prints that the test is skipped otherwise.
#[expect(clippy::print_stdout, reason = "a skipped test says so")]
pub fn can_be_another_user() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("skipped: only root can play another user");
    }
    is_root
}

/// Starts a bash script as another user, with `$1` and `$2` the host and the port for `/dev/tcp`, and `$3` the argument.
pub fn as_another_user(script: &str, address: SocketAddr, argument: &str) -> Child {
    let mut bash = Command::new("/bin/bash");
    bash.args(["-c", script, "bash", &address.ip().to_string(), &address.port().to_string(), argument]);
    bash.env_clear().current_dir("/").uid(OTHER_USER).gid(OTHER_USER);
    bash.stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("a loopback peer of this test")
}

/// Returns the response to a request for `path` by another user, empty if the connection was closed or refused.
pub fn get_as_another_user(address: SocketAddr, path: &str) -> String {
    let script = r#"trap '' PIPE; exec 3<>"/dev/tcp/$1/$2" || exit 0
        printf 'GET %s HTTP/1.1\r\nhost: localhost\r\n\r\n' "$3" >&3; cat <&3; exit 0"#;
    let output = as_another_user(script, address, path).wait_with_output().expect("a loopback peer of this test");
    assert_eq!(output.status.code(), Some(0), "{:?}", output.status);
    String::from_utf8(output.stdout).expect("a loopback peer of this test")
}
