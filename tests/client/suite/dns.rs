//! What the DNS proxy of a client answers, and whom it asks.

use hickory_proto::op::ResponseCode;
use libtest_mimic::Trial;
use std::time::{Duration, Instant};

use crate::names::{Names, Reply, Server, alone, ask, ask_by_tcp, config, from};
use crate::trials;

/// All cases.
pub fn all() -> Vec<Trial> {
    trials![
        a_name_goes_to_the_servers_of_its_domain_and_to_no_other,
        a_name_of_no_domain_goes_to_all_and_the_first_good_answer_counts,
        a_server_that_is_silent_keeps_nobody_from_the_answer_of_another,
        the_original_servers_are_asked_last,
        the_best_of_the_bad_answers_is_told,
        when_nobody_answers_that_is_said_in_time,
        an_answer_that_is_too_long_for_udp_comes_over_tcp,
        an_answer_is_kept_as_long_as_it_lives_and_grows_older,
        what_a_former_server_said_is_forgotten_with_it,
        a_crowd_of_questions_is_answered,
    ]
}

fn a_name_goes_to_the_servers_of_its_domain_and_to_no_other() {
    alone(async {
        let [two, three, nine] = [
            Server::start(2, Reply::Addresses(1, 9)).await,
            Server::start(3, Reply::Addresses(1, 9)).await,
            Server::start(9, Reply::Addresses(1, 9)).await,
        ];
        let names = Names::new();
        names.request("0", &[config(2, &["a.example"])]).await;
        names.request("1", &[config(3, &["b.example"])]).await;

        for (name, server) in [
            ("www.a.example.", 2),
            ("WWW.B.example.", 3),
            ("b.example.", 3),
            ("dns.cluster.local.", 9),
        ] {
            assert_eq!(from(&ask(name).await), [(server, 9)], "{name}");
        }
        assert_eq!([two.asked(), three.asked(), nine.asked()], [1, 2, 1]);
    });
}

fn a_name_of_no_domain_goes_to_all_and_the_first_good_answer_counts() {
    alone(async {
        let [two, three] = [
            Server::start(2, Reply::Code(ResponseCode::NXDomain)).await,
            Server::start(3, Reply::Addresses(2, 9)).await,
        ];
        let names = Names::new();
        names.request("0", &[config(2, &["a.example"])]).await;
        names.request("1", &[config(3, &[])]).await;

        assert_eq!(from(&ask("www.org.").await), [(3, 9), (3, 9)]);
        assert_eq!([two.asked(), three.asked()], [1, 1]);
    });
}

fn a_server_that_is_silent_keeps_nobody_from_the_answer_of_another() {
    alone(async {
        let _two = Server::start(2, Reply::Never).await;
        let _three = Server::start(3, Reply::Addresses(1, 9)).await;
        let names = Names::new();
        // Nobody is at 127.0.0.4.
        let configs = [config(2, &[]), config(3, &[]), config(4, &[])];
        names.request("0", &configs).await;
        let start = Instant::now();

        assert_eq!(from(&ask("www.org.").await), [(3, 9)]);
        assert!(start.elapsed() < Duration::from_secs(1));
    });
}

fn the_original_servers_are_asked_last() {
    alone(async {
        let two = Server::start(2, Reply::Code(ResponseCode::ServFail)).await;
        let nine = Server::start(9, Reply::Addresses(1, 9)).await;
        let names = Names::new();
        names.request("0", &[config(2, &["a.example"])]).await;

        for name in ["a.example.", "www.org."] {
            assert_eq!(from(&ask(name).await), [(9, 9)], "{name}");
        }
        assert_eq!([two.asked(), nine.asked()], [2, 2]);
    });
}

fn the_best_of_the_bad_answers_is_told() {
    alone(async {
        let _two = Server::start(2, Reply::Code(ResponseCode::NXDomain)).await;
        let _nine = Server::start(9, Reply::Code(ResponseCode::Refused)).await;
        let names = Names::new();
        names.request("0", &[config(2, &[])]).await;

        let answer = ask("nowhere.org.").await;

        assert_eq!(answer.metadata.response_code, ResponseCode::NXDomain);
    });
}

fn when_nobody_answers_that_is_said_in_time() {
    alone(async {
        let _two = Server::start(2, Reply::Never).await;
        let _nine = Server::start(9, Reply::Never).await;
        let names = Names::new();
        names.request("0", &[config(2, &[])]).await;
        let start = Instant::now();

        let answer = ask("www.org.").await;

        assert_eq!(answer.metadata.response_code, ResponseCode::ServFail);
        // A resolver asks again after five seconds.
        assert!(start.elapsed() < Duration::from_millis(4900));
    });
}

fn an_answer_that_is_too_long_for_udp_comes_over_tcp() {
    alone(async {
        let _two = Server::start(2, Reply::Addresses(100, 9)).await;
        let names = Names::new();
        names.request("0", &[config(2, &[])]).await;

        let short = ask("www.org.").await;
        assert!(short.metadata.truncation);
        assert!(short.answers.is_empty());

        assert_eq!(from(&ask_by_tcp("www.org.").await), [(2, 9); 100]);
    });
}

fn an_answer_is_kept_as_long_as_it_lives_and_grows_older() {
    alone(async {
        let two = Server::start(2, Reply::Addresses(1, 3)).await;
        let names = Names::new();
        names.request("0", &[config(2, &[])]).await;
        assert_eq!(from(&ask("www.org.").await), [(2, 3)]);

        let start = Instant::now();
        while two.asked() == 1 {
            let lives = from(&ask("WWW.org.").await);
            let [(2, life)] = lives[..] else {
                panic!("{lives:?}");
            };
            if two.asked() == 1 {
                let age = start.elapsed().as_secs() as u32;
                // The answer is as old as the first word of it, and it may have got older meanwhile.
                assert!((3 - life).abs_diff(age) <= 1, "{life} after {age} s");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let lived = start.elapsed();
        assert!(lived > Duration::from_millis(2500), "{lived:?}");
        assert!(lived < Duration::from_secs(10), "{lived:?}");
    });
}

fn what_a_former_server_said_is_forgotten_with_it() {
    alone(async {
        let _two = Server::start(2, Reply::Addresses(1, 60)).await;
        let _three = Server::start(3, Reply::Addresses(1, 60)).await;
        let names = Names::new();
        names.request("0", &[config(2, &[])]).await;
        assert_eq!(from(&ask("www.org.").await), [(2, 60)]);

        names.request("0", &[config(3, &[])]).await;

        // The proxy hears of the change in its own time.
        let start = Instant::now();
        while from(&ask("www.org.").await)[0].0 != 3 {
            assert!(start.elapsed() < Duration::from_secs(5));
        }
    });
}

fn a_crowd_of_questions_is_answered() {
    alone(async {
        let _two = Server::start(2, Reply::Addresses(1, 60)).await;
        let names = Names::new();
        names.request("0", &[config(2, &[])]).await;
        let mut questions = tokio::task::JoinSet::new();
        for number in 0..100 {
            questions.spawn(async move { ask(&format!("{number}.org.")).await });
        }

        for answer in questions.join_all().await {
            assert_eq!(from(&answer), [(2, 60)]);
        }
    });
}
