//! Plain servers, as a user would write them without Flint: the same handler behind its language's HTTP
//! server, in one process, without isolation.

use std::{
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    path::Path,
    process::{Child, Stdio},
};

use anyhow::Context as _;

use super::{
    interpreter::{self, Interpreter},
    tied::tied,
};

/// A server process, killed on drop.
pub(super) struct Peer {
    process: Child,
    /// Where it listens.
    pub(super) address: SocketAddr,
}

const NODE: &str = r"
const { main } = require(process.argv[2]);
const server = require('node:http').createServer((request, response) => {
  const pieces = [];
  request.on('data', (piece) => pieces.push(piece));
  request.on('end', () => {
    const answer = Buffer.from(JSON.stringify(main(JSON.parse(Buffer.concat(pieces).toString()))));
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': answer.length });
    response.end(answer);
  });
});
// Among a hundred servers, a connection's next turn may come after the five seconds for which Node.js keeps
// it.
server.keepAliveTimeout = 0;
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
";

const PYTHON: &str = r"
import importlib.util, json, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

spec = importlib.util.spec_from_file_location('function', sys.argv[1])
function = importlib.util.module_from_spec(spec)
spec.loader.exec_module(function)

class Handler(BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    disable_nagle_algorithm = True
    wbufsize = -1

    def do_POST(self):
        parameters = json.loads(self.rfile.read(int(self.headers['content-length'])))
        answer = json.dumps(function.main(parameters)).encode()
        self.send_response(200)
        self.send_header('content-type', 'application/json')
        self.send_header('content-length', str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *arguments):
        pass

server = ThreadingHTTPServer(('127.0.0.1', 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
";

impl Peer {
    /// The handler in `code` behind `node:http`.
    pub(super) fn node(code: &Path, scratch: &Path) -> anyhow::Result<Self> {
        Self::start(&interpreter::node()?, NODE, &scratch.join("plain-server.cjs"), code)
    }

    /// The handler in `code` behind `http.server.ThreadingHTTPServer`.
    pub(super) fn python(code: &Path, scratch: &Path) -> anyhow::Result<Self> {
        Self::start(&interpreter::python()?, PYTHON, &scratch.join("plain_server.py"), code)
    }

    fn start(interpreter: &Interpreter, script: &str, at: &Path, code: &Path) -> anyhow::Result<Self> {
        std::fs::write(at, script).with_context(|| format!("writing {}", at.display()))?;
        let interpreter = interpreter.program.display().to_string();
        let mut process = tied(&interpreter)
            .args([at, code])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {interpreter}"))?;
        let mut port = String::new();
        let stdout = process.stdout.take().context("the server's stdout is piped")?;
        BufReader::new(stdout).read_line(&mut port).context("reading the server's port")?;
        let port: u16 = port.trim().parse().with_context(|| format!("{interpreter} did not say its port"))?;
        Ok(Self { process, address: SocketAddr::from(([127, 0, 0, 1], port)) })
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        net::TcpStream,
    };

    use super::*;

    #[test]
    fn a_server_of_node_keeps_a_connection_until_its_turn_comes() {
        let scratch = tempfile::tempdir().unwrap();
        let code = scratch.path().join("hello.js");
        std::fs::write(&code, "exports.main = () => ({ ok: true });").unwrap();
        let peer = Peer::node(&code, scratch.path()).unwrap();
        let mut connection = TcpStream::connect(peer.address).unwrap();
        connection.write_all(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}").unwrap();
        let mut answer = String::new();
        while !answer.ends_with(r#"{"ok":true}"#) {
            let mut piece = [0; 1024];
            let size = connection.read(&mut piece).unwrap();
            assert!(size > 0, "{answer}");
            answer.push_str(std::str::from_utf8(&piece[..size]).unwrap());
        }
        // Node.js announces here how long it keeps a connection, unless for ever.
        assert!(!answer.to_lowercase().contains("timeout="), "{answer}");
    }
}
