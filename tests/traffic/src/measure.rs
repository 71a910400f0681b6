//! One measurement: a stream at full rate while a flow goes on beside it.

use crate::Error;
use crate::figures::{Cell, Slice};
use crate::flow::{KernelsBest, Name};
use crate::meter::{Meter, comes_out};
use crate::sender::Socket;
use crate::sink::Sink;
use crate::stage::Stage;
use crate::stream::Stream;
use std::time::Duration;

/// Where the kernel's own best is measured too, the two take turns of so long.
const TURN: Duration = Duration::from_millis(100);

/// Measures one flow beside one stream, for so long.
///
/// # Errors
/// When it cannot be measured. What the element does wrong is no error but a figure.
pub fn measure(flow: Name, stream: Stream, time: Duration) -> Result<Cell, Error> {
    let mut stage = Stage::new(stream)?;
    let mut course = flow.begin(&mut stage)?;
    let _sink = Sink::open(&stage.world, stream)?;
    let socket = Socket::open(&stage.world, stream)?;
    let mut meter = Meter::start(&stage.world, stream, flow.links(), socket)?;

    let (mut element, mut best) = (Slice::default(), Slice::default());
    let mut failure = None;
    let takes_turns = flow.deletes_route_in_use(stream.family);
    let turn = if takes_turns { TURN.min(time) } else { time };
    // On a busy machine who sends may not have had a turn yet, and a control shows nothing then.
    let wants_more = |so_far: &Slice| {
        let unseen = so_far.own == 0 || flow == Name::Control && so_far.leaked() == 0;
        so_far.took < if unseen { 10 * time } else { time }
    };
    while failure.is_none() && wants_more(&element) {
        let (slice, failed) = meter.during(turn, || course.change(&mut stage).map(|()| 1))?;
        element += slice;
        failure = failed;
        if takes_turns && failure.is_none() {
            let pace = element.took / element.changes.max(1) as u32;
            let mut bare = KernelsBest::begin(flow, pace, &mut stage)?;
            let (slice, failed) =
                meter.during(turn, || bare.there_and_back(&mut stage).map(|()| 2))?;
            best += slice;
            failure = failed;
        }
    }
    let (mut sender, rest) = meter.stop()?;
    element += rest;
    let after = comes_out(&stage.world, stream, &mut sender.socket)?;
    Ok(Cell {
        flow,
        stream,
        element,
        kernels_best: takes_turns.then_some(best),
        error: sender.error.map(|error| error.to_string()),
        failure: failure.map(|failure| failure.to_string()),
        home: course.home(),
        after,
    })
}
