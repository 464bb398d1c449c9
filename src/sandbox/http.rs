//! The sandbox on a socket: plain HTTP for kubectl, the demo and the binary, and the kubeconfig that leads to it.

use std::net::SocketAddr;
use std::path::Path;

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use super::Sandbox;
use super::interceptor::ConnectionLost;

/// A server that runs until this is dropped.
#[derive(Debug)]
pub struct Served {
    address: SocketAddr,
    task: tokio::task::JoinHandle<()>,
}

impl Served {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A kubeconfig that leads here.
    pub fn kubeconfig(&self) -> String {
        kubeconfig(self.address)
    }

    /// Writes the kubeconfig to a file.
    pub fn write_kubeconfig(&self, path: &Path) -> std::io::Result<()> {
        std::fs::write(path, self.kubeconfig())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A kubeconfig with one context named `kapr-sandbox`.
pub fn kubeconfig(address: SocketAddr) -> String {
    format!(
        "apiVersion: v1\nkind: Config\n\
         clusters:\n- name: kapr-sandbox\n  cluster:\n    server: http://{address}\n\
         users:\n- name: sandbox\n  user: {{}}\n\
         contexts:\n- name: kapr-sandbox\n  context:\n    cluster: kapr-sandbox\n    user: sandbox\n    namespace: default\n\
         current-context: kapr-sandbox\n"
    )
}

/// Listens on an address (port 0: any) and serves until the result is dropped.
pub(super) async fn serve(sandbox: Sandbox, address: SocketAddr) -> std::io::Result<Served> {
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    let task = tokio::spawn(async move {
        let mut connections = tokio::task::JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => {
                    if let Ok((socket, _)) = accepted {
                        connections.spawn(connection(sandbox.clone(), socket));
                    }
                }
                Some(_) = connections.join_next() => {}
            }
        }
    });
    Ok(Served { address, task })
}

async fn connection(sandbox: Sandbox, socket: tokio::net::TcpStream) {
    // Small answers must not wait for each other.
    let _ = socket.set_nodelay(true);
    let service = service_fn(move |request: http::Request<Incoming>| {
        let sandbox = sandbox.clone();
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map_err(|_| ConnectionLost)?.to_bytes();
            sandbox.handle(http::Request::from_parts(parts, body)).await
        }
    });
    // An error here is a client that went away, or a connection that an interceptor broke.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(socket), service).await;
}
