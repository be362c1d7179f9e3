use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

use crate::comparison::ReferenceProgram;

/// A running Go program that responds line by line.
pub(crate) struct OracleProcess {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl OracleProcess {
    pub(crate) fn start(reference: &ReferenceProgram, oracles: &Path, oracle_exec: &Path) -> Self {
        let mut command = match reference {
            ReferenceProgram::OracleProcess(name) => Command::new(oracles.join(format!("oracle-{name}"))),
            ReferenceProgram::Exec(mode) => {
                let mut command = Command::new(oracle_exec);
                command.arg(mode);
                command
            }
        };
        // The environment of this process must not influence the result; the home directory does not exist.
        command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", "/nonexistent");
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("the oracle {:?} does not start: {error}", command.get_program()));
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, stdin, stdout }
    }

    pub(crate) fn ask(&mut self, query: &Value) -> Value {
        let mut line = query.to_string();
        line.push('\n');
        self.stdin.as_mut().expect("a pipe").write_all(line.as_bytes()).expect("the oracle has gone");
        let mut answer = Vec::new();
        self.stdout.read_until(b'\n', &mut answer).expect("the oracle has gone");
        serde_json::from_slice(&answer).unwrap_or_else(|_| panic!("the oracle does not understand {line}"))
    }
}

impl Drop for OracleProcess {
    fn drop(&mut self) {
        // The oracle exits at end of file.
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}
