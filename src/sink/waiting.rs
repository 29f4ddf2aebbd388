//! Connections that have not said yet what they are.
//!
//! There is room for few of them, and whoever comes takes the place of the one that
//! has been silent longest: a source says hello within milliseconds.

use std::net::IpAddr;
use std::net::Shutdown;
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;

/// Of all hosts together, and of one.
const MOST: usize = 32;
const OF_ONE_HOST: usize = 8;

#[derive(Default)]
pub(super) struct Waiting {
    silent: Mutex<Silent>,
}

#[derive(Default)]
struct Silent {
    count: u64,
    /// Oldest first.
    connections: Vec<(u64, IpAddr, TcpStream)>,
}

impl Waiting {
    fn lock(&self) -> MutexGuard<'_, Silent> {
        self.silent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes `stream` in; the number to give to [`Waiting::spoke`].
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub(super) fn enter(&self, stream: &TcpStream, from: IpAddr) -> std::io::Result<u64> {
        let stream = stream.try_clone()?;
        let mut silent = self.lock();
        let of_host = |(_, host, _): &&(u64, IpAddr, TcpStream)| *host == from;
        let of_one = silent.connections.iter().filter(of_host).count();
        let oldest = match (of_one >= OF_ONE_HOST, silent.connections.len() >= MOST) {
            (true, _) => silent.connections.iter().position(|one| of_host(&one)),
            (false, true) => Some(0),
            (false, false) => None,
        };
        if let Some(oldest) = oldest {
            let (_, _, stream) = silent.connections.remove(oldest);
            // Its thread then sees the end.
            let _ = stream.shutdown(Shutdown::Both);
        }
        silent.count += 1;
        let number = silent.count;
        silent.connections.push((number, from, stream));
        Ok(number)
    }

    /// It said what it is, or ended.
    pub(super) fn spoke(&self, number: u64) {
        let mut silent = self.lock();
        silent.connections.retain(|(one, ..)| *one != number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;

    fn ended(client: &mut TcpStream) -> bool {
        client.set_nonblocking(true).unwrap();
        matches!(client.read(&mut [0]), Ok(0))
    }

    #[test]
    fn who_is_silent_longest_makes_room() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let waiting = Waiting::default();
        let come = |host: u8| {
            let client = TcpStream::connect(address).unwrap();
            let (stream, _) = listener.accept().unwrap();
            let number = waiting.enter(&stream, IpAddr::from([10, 0, 0, host]));
            (client, stream, number.unwrap())
        };
        let mut of_one: Vec<_> = (0..OF_ONE_HOST).map(|_| come(1)).collect();
        assert!(!of_one.iter_mut().any(|(client, ..)| ended(client)));
        let another = come(1);
        assert!(ended(&mut of_one[0].0), "the oldest of the host goes");
        assert!(!ended(&mut of_one[1].0));
        waiting.spoke(another.2);
        let _again = come(1);
        assert!(!ended(&mut of_one[1].0), "who spoke counts no more");
        let others: Vec<_> = (2..=32).map(come).collect();
        assert!(ended(&mut of_one[1].0), "the oldest of all goes");
        assert_eq!(waiting.lock().connections.len(), MOST);
        drop(others);
    }
}
