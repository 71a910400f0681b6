//! Never neither: whatever stopped the element, each policy is on its old or on its new content,
//! and none is newly half installed.

use crate::picture::{Content, Picture};

/// Holds a moment against what stood before and what was to stand. Each is a list of pods.
///
/// # Errors
/// What is wrong, in words.
pub fn between(old: &[Picture], new: &[Picture], now: &[Picture]) -> Result<(), String> {
    for ((old, new), now) in old.iter().zip(new).zip(now) {
        let stays = old
            .policies
            .iter()
            .filter(|(it, _)| new.policies.contains_key(*it));
        for (selector, _) in stays.filter(|(_, content)| works(content)) {
            if !now.policies.contains_key(selector) {
                let stands = &now.lines;
                return Err(format!(
                    "{selector} has neither its old nor its new rule: {stands:?}"
                ));
            }
        }
        for (selector, content) in &now.policies {
            let of = |picture: &'_ Picture| picture.policies.get(selector).cloned();
            policy(of(old).as_ref(), of(new).as_ref(), content)
                .map_err(|wrong| format!("{selector}: {wrong}: {:?}", now.lines))?;
        }
    }
    moved(old, new, now)
}

/// A rule on a table that leads nowhere may go.
fn works(content: &Content) -> bool {
    content.values().any(|ways| !ways.is_empty())
}

fn policy(old: Option<&Content>, new: Option<&Content>, now: &Content) -> Result<(), String> {
    let known = |prefix: &str, way: &String| {
        let mut contents = [old, new].into_iter().flatten();
        contents.any(|it| it.get(prefix).is_some_and(|ways| ways.contains(way)))
    };
    for (prefix, ways) in now {
        if let Some(way) = ways.iter().find(|way| !known(prefix, way)) {
            return Err(format!("{prefix} {way} is neither old nor new"));
        }
    }
    match (old, new) {
        (Some(old), _) if is_whole(old, now) => Ok(()),
        (_, Some(new)) if is_whole(new, now) => Ok(()),
        (Some(_), Some(_)) => Err("neither its old nor its new content is whole".to_owned()),
        (Some(_), None) => Err("its rule stands, and not all of its routes".to_owned()),
        (None, Some(_)) => Err("it is newly half installed".to_owned()),
        (None, None) => Err("nobody has ever wanted it".to_owned()),
    }
}

/// Whether all of a content is there, and maybe more.
fn is_whole(wanted: &Content, now: &Content) -> bool {
    wanted.iter().all(|(prefix, ways)| {
        let there = now.get(prefix);
        there.is_some_and(|there| ways.is_empty() || ways.iter().any(|way| there.contains(way)))
    })
}

/// A policy that goes from one pod to another is in one of them.
fn moved(old: &[Picture], new: &[Picture], now: &[Picture]) -> Result<(), String> {
    let has = |pods: &[Picture], selector| pods.iter().any(|it| it.policies.contains_key(selector));
    let working = old
        .iter()
        .flat_map(|pod| &pod.policies)
        .filter(|(_, content)| works(content));
    for (selector, _) in working {
        if has(new, selector) && !has(now, selector) {
            return Err(format!("{selector} is in no pod"));
        }
    }
    Ok(())
}
