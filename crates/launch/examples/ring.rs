//! Every rank of a job sends a word to the next one, which it calls by its name.
//!
//! `mpirun -n 3 target/debug/examples/ring`, or `mpiexec` or `srun`.

use std::error::Error;
use std::time::Duration;

use weft_launch::{Job, rank_name};
use weft_socket::{Node, Options};

fn main() -> Result<(), Box<dyn Error>> {
    let Some(job) = Job::find()? else {
        println!("no launcher started this; try mpirun -n 3");
        return Ok(());
    };
    let (rank, size) = (job.rank(), job.size());
    let node = Node::builder().node(job.node()).bind(job.bind(false)?).open()?;
    let listener = node.listen(1064, &Options::datagram())?; // before the others know where we are

    for place in job.join(node.underlay(), Duration::from_secs(60))? {
        node.add_peer(place.node, place.at);
        for name in place.names {
            node.add_name(name.parse()?, place.node)?;
        }
    }

    let next = rank_name((rank + 1) % size);
    let socket = node.connect(format!("{next}:1064"), &Options::datagram())?;
    socket.send(format!("{} greets {next}", rank_name(rank)).as_bytes())?;
    let word = listener.accept()?.recv_message()?.to_vec();
    println!("{}", String::from_utf8_lossy(&word));
    socket.close()?;
    node.shutdown(Duration::from_secs(2));
    Ok(())
}
