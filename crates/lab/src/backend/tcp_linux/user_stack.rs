//! TCP in user space at the ends of the link.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use fullpipe_emu::tun::Host;
use fullpipe_tcp::Config;
use fullpipe_tcp::tokio::{Stack, TcpListener};
use fullpipe_traffic::Direction;
use tokio::runtime::{Builder, Runtime};

use super::end::Listener;
use super::testbed::port;
use crate::backend::RunError;
use crate::backend::link::Link;

/// Connections of a stack: one a flow, or many short ones, those in TIME-WAIT included.
const MAX_CONNECTIONS: usize = 1 << 16;

/// Connections of a flow that wait to be accepted.
const BACKLOG: usize = 512;

/// The largest receive buffer, to which a receiver's grows with what is read: more than any link
/// here can fill.
const MAX_RECEIVE_BUFFER: usize = 64 << 20;

/// A TCP in user space behind one end of the link, which runs until this is dropped.
pub(super) struct UserStack {
    pub(super) stack: Stack,
    pub(super) address: Ipv4Addr,
    /// Its driver's.
    pub(super) runtime: Runtime,
}

impl UserStack {
    fn start(host: Host) -> Result<Arc<Self>, RunError> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("fullpipe-tcp")
            .on_thread_start(|| {
                // Without it packets leave late when the machine is busy, and the report of the
                // link shows that.
                Host::request_realtime();
            })
            .enable_all()
            .build()
            .map_err(RunError::Runtime)?;
        let stack = runtime.block_on(async { Stack::start(host.device, MAX_CONNECTIONS) });
        let stack = stack.map_err(RunError::Socket)?;
        Ok(Arc::new(Self { stack, address: host.address, runtime }))
    }
}

/// The stacks of a run, each made when a flow needs it.
#[derive(Default)]
pub(super) struct UserStacks {
    behind_server: Option<Arc<UserStack>>,
    behind_client: Option<Arc<UserStack>>,
}

impl UserStacks {
    /// The stack and the settings of a flow's sender, which leaves at most `unsent` bytes of its
    /// application's data waiting.
    pub(super) fn sender(
        &mut self,
        link: &Link,
        direction: Direction,
        config: Config,
        unsent: usize,
    ) -> Result<(Arc<UserStack>, Box<Config>), RunError> {
        let stack = match direction {
            Direction::Down => self.behind_server(link)?,
            Direction::Up => self.behind_client(link)?,
        };
        Ok((stack, Box::new(Config { unsent, ..config })))
    }

    /// The receiver of flow `i`, and its address.
    pub(super) fn receiver(
        &mut self,
        link: &Link,
        i: usize,
        direction: Direction,
        config: Config,
    ) -> Result<(Listener, SocketAddr), RunError> {
        let stack = match direction {
            Direction::Down => self.behind_client(link)?,
            Direction::Up => self.behind_server(link)?,
        };
        let address = SocketAddr::from((stack.address, port(i)));
        let config = Config {
            receive_buffer: MAX_RECEIVE_BUFFER,
            initial_receive_buffer: Config::default().initial_receive_buffer,
            ..config
        };
        let listener = TcpListener::bind(&stack.stack, address, BACKLOG, &config);
        Ok((Listener::User(listener.map_err(RunError::Socket)?, stack), address))
    }

    fn behind_server(&mut self, link: &Link) -> Result<Arc<UserStack>, RunError> {
        let (server, _) = link.namespaces().ok_or(RunError::Lost)?;
        get_or_start(&mut self.behind_server, || Ok(Host::behind_server(server)?))
    }

    fn behind_client(&mut self, link: &Link) -> Result<Arc<UserStack>, RunError> {
        let (_, client) = link.namespaces().ok_or(RunError::Lost)?;
        get_or_start(&mut self.behind_client, || Ok(Host::behind_client(client)?))
    }
}

fn get_or_start(
    place: &mut Option<Arc<UserStack>>,
    host: impl FnOnce() -> Result<Host, RunError>,
) -> Result<Arc<UserStack>, RunError> {
    let stack = match place {
        Some(stack) => stack,
        None => place.insert(UserStack::start(host()?)?),
    };
    Ok(Arc::clone(stack))
}
