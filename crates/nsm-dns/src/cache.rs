//! Answers that are good for a while.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hickory_proto::op::{Message, Query, ResponseCode};
use hickory_proto::rr::{DNSClass, Name, RecordType};
use tokio::time::{Duration, Instant};

use crate::exchange::LONGEST_ANSWER;

/// How many answers are kept.
const MOST: usize = 1000;
/// How long an answer is kept at most: what a connection brings may change.
const LONGEST: Duration = Duration::from_secs(60);

/// Answers, until the first of their records ends.
#[derive(Debug, Default)]
pub(crate) struct Cache(Mutex<HashMap<Key, Kept>>);

/// What makes a difference to the answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    name: Name,
    query_type: RecordType,
    class: DNSClass,
    /// Whether the client speaks EDNS and whether it wants signatures.
    edns: Option<bool>,
    checking_disabled: bool,
}

#[derive(Debug)]
struct Kept {
    answer: Message,
    since: Instant,
    until: Instant,
}

impl Key {
    pub(crate) fn of(message: &Message, query: &Query) -> Self {
        Self {
            name: query.name.to_lowercase(),
            query_type: query.query_type,
            class: query.query_class,
            edns: message.edns.as_ref().map(|edns| edns.flags().dnssec_ok),
            checking_disabled: message.metadata.checking_disabled,
        }
    }
}

impl Cache {
    /// An answer that is still good, with what is left of the lives of its records.
    pub(crate) fn get(&self, key: &Key) -> Option<Message> {
        let mut all = self.lock();
        let kept = all.get(key)?;
        let now = Instant::now();
        if now >= kept.until {
            all.remove(key);
            return None;
        }
        let age = u32::try_from((now - kept.since).as_secs()).unwrap_or(u32::MAX);
        let mut answer = kept.answer.clone();
        let sections = [
            &mut answer.answers,
            &mut answer.authorities,
            &mut answer.additionals,
        ];
        for record in sections.into_iter().flatten() {
            record.ttl = record.ttl.saturating_sub(age);
        }
        Some(answer)
    }

    /// Keeps an answer, if it is one, and not too long.
    pub(crate) fn put(&self, key: Key, answer: &Message) {
        let good = answer.metadata.response_code == ResponseCode::NoError;
        let shortest = answer.answers.iter().map(|record| record.ttl).min();
        let Some(life) = shortest.filter(|life| good && *life > 0) else {
            return;
        };
        let fits = |bytes: Vec<u8>| bytes.len() <= LONGEST_ANSWER.into();
        if !answer.to_vec().is_ok_and(fits) {
            return;
        }
        let since = Instant::now();
        let until = since + Duration::from_secs(life.into()).min(LONGEST);
        let mut all = self.lock();
        if all.len() >= MOST {
            all.retain(|_, kept| kept.until > since);
        }
        if all.len() < MOST {
            let answer = answer.clone();
            all.insert(
                key,
                Kept {
                    answer,
                    since,
                    until,
                },
            );
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hickory_proto::rr::rdata::A;
    use hickory_proto::rr::{RData, Record};

    #[test]
    fn an_answer_of_up_to_4096_bytes_is_kept_and_a_longer_one_is_not() {
        let name = Name::from_ascii("www.org.").unwrap();
        let query = Query::query(name.clone(), RecordType::A);
        let mut answer = Message::response(0, hickory_proto::op::OpCode::Query);
        answer.metadata.response_code = ResponseCode::NoError;
        answer.queries.push(query.clone());
        let key = Key::of(&answer, &query);
        let is_kept = |records: usize| {
            let cache = Cache::default();
            let record = Record::from_rdata(name.clone(), 60, RData::A(A::new(10, 0, 0, 1)));
            let mut answer = answer.clone();
            answer.answers = vec![record; records];
            cache.put(key.clone(), &answer);
            (answer.to_vec().unwrap().len(), cache.get(&key).is_some())
        };

        let all: Vec<_> = (200..300).map(is_kept).collect();
        assert!(all.iter().any(|(_, kept)| *kept) && all.iter().any(|(_, kept)| !kept));
        for (length, kept) in all {
            assert_eq!(kept, length <= 4096, "{length} bytes");
        }
    }
}
