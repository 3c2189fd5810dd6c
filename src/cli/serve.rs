//! `portreeve serve`: the service.

use std::process::ExitCode;

use super::Context;
use super::node::Node;

/// Answers RADIUS requests until SIGTERM. The first signal lets open conversations finish, the second ends at once; SIGHUP
/// reads the certificates again. Policies, clients and MAC addresses follow the database by themselves.
#[derive(Debug, clap::Args)]
pub struct Args {}

pub fn run(_args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    let config = context.config()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("portreeve")
        .enable_all()
        .build()?;
    runtime.block_on(async { Node::start(&config).await?.run().await })?;
    Ok(ExitCode::SUCCESS)
}
