//! A server that stands still at the beginning of every period.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    thread,
    time::{Duration, Instant},
};

/// Serves until the test is over; the first period begins now.
pub(crate) fn start(period: Duration, stall: Duration) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port of loopback");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || serve(&listener, period, stall));
    address
}

fn serve(listener: &TcpListener, period: Duration, stall: Duration) {
    let begin = Instant::now();
    for stream in listener.incoming().map_while(Result::ok) {
        thread::spawn(move || {
            let (mut stream, mut request) = (stream, [0; 1024]);
            while stream.read(&mut request).is_ok_and(|n| n > 0) {
                let phase = Duration::from_nanos((begin.elapsed().as_nanos() % period.as_nanos()) as u64);
                thread::sleep(stall.saturating_sub(phase));
                if stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").is_err() {
                    break;
                }
            }
        });
    }
}
