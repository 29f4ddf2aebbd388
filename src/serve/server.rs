//! A server of lines: a thread that reads and one that writes for each
//! connection, and a handler that they share.

use super::line::End;
use super::line::Limits;
use super::line::Line;
use super::line::Lines;
use super::listen::Connection;
use super::listen::Listener;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use std::collections::BTreeMap;
use std::io::Write;
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::Receiver;
use std::sync::mpsc::SyncSender;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;
use std::time::Instant;

/// Answers that wait for a client to read them. One that sends without reading
/// is read no further; a subscriber that falls so far behind is disconnected.
const QUEUE: usize = 1024;

/// Answers lines.
pub trait Handler: Send + Sync + 'static {
    /// The answers to the `number`th line of `client`, without their ends.
    fn answer(&self, client: &Arc<Client>, number: u64, line: &Line) -> Vec<String>;

    /// The client called `id` has left.
    fn left(&self, _id: u64) {}
}

/// A connected client.
pub struct Client {
    pub id: u64,
    answers: SyncSender<String>,
    connection: Connection,
    subscribed: AtomicBool,
    state: Mutex<ClientState>,
}

struct ClientState {
    busy: bool,
    touched: Instant,
}

/// All clients by id.
type Clients = Arc<Mutex<BTreeMap<u64, Arc<Client>>>>;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Client {
    /// From now on it listens: being idle is no reason to disconnect it.
    pub fn subscribe(&self) {
        self.subscribed.store(true, Relaxed);
    }

    /// Sends a line that it did not ask for; disconnects it when it does not
    /// read.
    pub fn tell(&self, line: &str) {
        if self.answers.try_send(line.to_string()).is_err() {
            self.connection.shut_down(Shutdown::Both);
        }
    }
}

/// Answers clients of `listeners` with `handler`, in threads that run until the
/// process ends.
///
/// # Errors
/// An environment error when no thread can be started.
pub fn serve(
    listeners: Vec<Arc<Listener>>,
    limits: Limits,
    handler: Arc<dyn Handler>,
) -> Result<()> {
    let clients = Clients::default();
    for listener in listeners {
        let (clients, handler) = (clients.clone(), handler.clone());
        spawn("accept", move || {
            accept(&listener, limits, &clients, &handler)
        })?;
    }
    Ok(())
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    let thread = thread::Builder::new()
        .name(name.into())
        .stack_size(512 << 10);
    let spawned = thread.spawn(work);
    spawned.map_err(|error| Error::environment(format!("cannot start a thread: {error}")))?;
    Ok(())
}

fn accept(listener: &Listener, limits: Limits, clients: &Clients, handler: &Arc<dyn Handler>) {
    let mut next = 0;
    loop {
        let Ok(connection) = listener.accept() else {
            // Out of file descriptors, or the client has gone: others may come.
            thread::sleep(Duration::from_millis(20));
            continue;
        };
        next += 1;
        // Ids of two listeners must differ.
        let id = next * 2 + u64::from(matches!(listener, Listener::Tcp(_)));
        welcome(connection, id, limits, clients, handler);
    }
}

/// Starts the threads of a new client. Without a place or a thread for it the
/// connection is closed.
fn welcome(
    mut connection: Connection,
    id: u64,
    limits: Limits,
    clients: &Clients,
    handler: &Arc<dyn Handler>,
) {
    if !has_place(clients, limits.connections) {
        let full = r#"{"answer":"error","line":0,"message":"too many connections; try again"}"#;
        let _ = connection.set_write_timeout(Duration::from_millis(100));
        let _ = connection.write_all(format!("{full}\n").as_bytes());
        return;
    }
    let (answers, queue) = sync_channel(QUEUE);
    let clones = (connection.try_clone(), connection.try_clone());
    let (Ok(reading), Ok(writing)) = clones else {
        return;
    };
    let client = Arc::new(Client {
        id,
        answers,
        connection,
        subscribed: AtomicBool::new(false),
        state: Mutex::new(ClientState {
            busy: false,
            touched: Instant::now(),
        }),
    });
    locked(clients).insert(id, client.clone());
    let writer = spawn("write", move || write(writing, queue, limits.write));
    let (all, handler) = (clients.clone(), handler.clone());
    let reader = writer.and_then(|()| {
        spawn("read", move || {
            read(reading, &client, &limits, handler.as_ref());
            handler.left(id);
            locked(&all).remove(&id);
        })
    });
    if reader.is_err() {
        locked(clients).remove(&id);
    }
}

/// Whether there is a place for one more client, if need be that of the one that
/// has been idle longest.
fn has_place(clients: &Clients, most: usize) -> bool {
    let mut clients = locked(clients);
    if clients.len() < most {
        return true;
    }
    let idle = clients
        .values()
        .filter(|client| !client.subscribed.load(Relaxed) && !locked(&client.state).busy);
    let longest = idle.min_by_key(|client| locked(&client.state).touched);
    let Some(id) = longest.map(|client| client.id) else {
        return false;
    };
    if let Some(client) = clients.remove(&id) {
        client.connection.shut_down(Shutdown::Both);
    }
    true
}

fn read(connection: Connection, client: &Arc<Client>, limits: &Limits, handler: &dyn Handler) {
    let mut lines = Lines::new(connection);
    let mut number = 0;
    let end = loop {
        let line = match lines.next(limits) {
            Ok(line) => line,
            Err(End::Idle) if client.subscribed.load(Relaxed) => continue,
            Err(end) => break end,
        };
        number += 1;
        *locked(&client.state) = ClientState {
            busy: true,
            touched: Instant::now(),
        };
        let answers = handler.answer(client, number, &line);
        // Who has the answers is idle.
        *locked(&client.state) = ClientState {
            busy: false,
            touched: Instant::now(),
        };
        for answer in answers {
            if client.answers.send(answer).is_err() {
                return;
            }
        }
    };
    let why = match end {
        End::Closed => return,
        End::Idle => format!("no line for {} s; disconnected", limits.idle.as_secs()),
        End::Unfinished => {
            let seconds = limits.line.as_secs();
            format!("the line was not finished within {seconds} s; disconnected")
        }
    };
    client.tell(&refusal(number + 1, &why));
}

/// An answer that says what is wrong with a line.
pub fn refusal(line: u64, message: &str) -> String {
    serde_json::json!({"answer": "error", "line": line, "message": message}).to_string()
}

/// Writes answers until the last sender is gone or the client does not read.
fn write(mut connection: Connection, queue: Receiver<String>, limit: Duration) {
    let _ = connection.set_write_timeout(limit);
    let mut bytes = Vec::new();
    while let Ok(answer) = queue.recv() {
        bytes.clear();
        bytes.extend_from_slice(answer.as_bytes());
        bytes.push(b'\n');
        // Those that are ready go out together.
        while bytes.len() < 64 << 10
            && let Ok(answer) = queue.try_recv()
        {
            bytes.extend_from_slice(answer.as_bytes());
            bytes.push(b'\n');
        }
        if connection.write_all(&bytes).is_err() {
            break;
        }
    }
    connection.shut_down(Shutdown::Both);
}
