use crate::warnings::Warnings;
use crate::{Machine, Pod};
use libtest_mimic::Trial;

/// A case as a test of the runner's: on a machine of its own, in paused time.
pub fn trial<M, C, F>(name: &str, case: C) -> Trial
where
    M: Machine,
    C: FnOnce(Pod<M>) -> F + Send + 'static,
    F: Future<Output = ()>,
{
    Trial::test(format!("{}::{name}", M::NAME), || {
        let warnings = Warnings::default();
        warnings.collect_here();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .on_thread_start(move || warnings.collect_here())
            .build()?;
        runtime.block_on(async { case(Pod::boot()).await });
        Ok(())
    })
}
