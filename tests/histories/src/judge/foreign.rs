use super::{Case, Problem};
use nsm_netlink::Family;

impl Case<'_> {
    /// S1: what is not ours is as before, in the same order.
    pub(super) fn foreign(&self) -> Vec<Problem> {
        let (before, after) = (
            self.before.foreign(self.at_work),
            self.after.foreign(self.at_work),
        );
        let mut problems = Vec::new();
        for family in Family::ALL {
            let ((rules, routes), (rules_now, routes_now)) = (&before[&family], &after[&family]);
            for (what, before, now) in [("rules", rules, rules_now), ("routes", routes, routes_now)]
            {
                if before != now {
                    let (before, now) = (before.join("\n      "), now.join("\n      "));
                    problems.push(Problem::wrong(format!(
                        "{family} {what} of others were\n      {before}\n    and are\n      {now}"
                    )));
                }
            }
        }
        problems
    }
}
