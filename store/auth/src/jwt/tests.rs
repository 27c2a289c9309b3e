//! Tokens of ours and of Go's golang-jwt 5.3, which etcd uses.

use super::*;

/// Keys and tokens that Go made: user `alice`, revision 7, until the year 2100.
const VECTORS: &str = include_str!("vectors.txt");
const NOW: u64 = 1_800_000_000;
const ENDS: u64 = 4_102_444_800;

struct Vector {
    method: JwtMethod,
    token: String,
    private: Vec<Vec<u8>>,
    public: Vec<Vec<u8>>,
}

fn vectors() -> Vec<Vector> {
    let texts = VECTORS.split("method ").skip(1);
    texts.map(vector).collect()
}

fn vector(text: &str) -> Vector {
    let mut lines = text.lines();
    let method = JwtMethod::of_name(lines.next().unwrap()).unwrap();
    let token = lines.next().unwrap().strip_prefix("token ").unwrap();
    let (mut private, mut public) = (Vec::new(), Vec::new());
    let blocks = text.split_inclusive("KEY-----\n").collect::<String>();
    for block in blocks.split("-----BEGIN ").skip(1) {
        let file = format!("-----BEGIN {block}").into_bytes();
        match block.split_once("-----").unwrap().0.contains("PRIVATE") {
            true => private.push(file),
            false => public.push(file),
        }
    }
    if let Some((_, secret)) = text.split_once("\nsecret ") {
        private.push(secret.trim_end().as_bytes().to_vec());
    }
    Vector {
        method,
        token: token.to_owned(),
        private,
        public,
    }
}

fn alice(revision: u64, ends: u64) -> Option<VerifiedJwt> {
    Some(VerifiedJwt {
        identity: Identity {
            user: "alice".into(),
            proof: Proof::Revision(revision),
        },
        ends: Some(ends),
    })
}

#[test]
fn gos_tokens_of_every_method_are_verified_with_every_form_of_key() {
    let vectors = vectors();
    let methods: Vec<_> = vectors.iter().map(|vector| vector.method).collect();
    assert_eq!(methods, JwtMethod::ALL);
    for Vector {
        method,
        token,
        private,
        public,
    } in &vectors
    {
        for key in private {
            let jwt = Jwt::new(*method, None, Some(key)).unwrap();
            assert_eq!(
                jwt.verify(token.as_bytes(), NOW),
                alice(7, ENDS),
                "{method:?}"
            );
        }
        for key in public {
            let jwt = Jwt::new(*method, Some(key), None).unwrap();
            assert_eq!(
                jwt.verify(token.as_bytes(), NOW),
                alice(7, ENDS),
                "{method:?}"
            );
            assert_eq!(
                jwt.sign("alice", 1, ENDS).unwrap_err(),
                JwtError::VerifyOnly
            );
        }
    }
}

#[test]
fn own_tokens_are_verified_until_their_end() {
    for Vector {
        method,
        private,
        public,
        ..
    } in &vectors()
    {
        let signer =
            Jwt::new(*method, public.first().map(|it| &it[..]), Some(&private[0])).unwrap();
        let token = signer.sign("alice", 9, NOW + 5).unwrap();
        let verifier = match public.first() {
            Some(public) => Jwt::new(*method, Some(public), None).unwrap(),
            None => signer,
        };
        assert_eq!(
            verifier.verify(token.as_bytes(), NOW),
            alice(9, NOW + 5),
            "{method:?}"
        );
        assert_eq!(
            verifier.verify(token.as_bytes(), NOW + 5),
            None,
            "{method:?}"
        );
    }
}

#[test]
fn a_token_of_another_method_or_key_is_refused() {
    let vectors = vectors();
    for one in &vectors {
        let jwt = Jwt::new(one.method, None, Some(&one.private[0])).unwrap();
        for other in vectors.iter().filter(|other| other.method != one.method) {
            let verified = jwt.verify(other.token.as_bytes(), NOW);
            assert_eq!(verified, None, "{:?} {:?}", one.method, other.method);
        }
    }
}

#[test]
fn a_public_key_as_the_secret_of_a_keyed_hash_does_not_help() {
    let rsa = &vectors()[0];
    let public = &rsa.public[0];
    let forger = Jwt::new(JwtMethod::Hs256, None, Some(public)).unwrap();
    let forged = forger.sign("root", 1, ENDS).unwrap();
    let jwt = Jwt::new(JwtMethod::Rs256, Some(public), None).unwrap();
    assert_eq!(jwt.verify(forged.as_bytes(), NOW), None);
}

#[test]
fn unsigned_cut_and_changed_tokens_are_refused() {
    let vector = &vectors()[10];
    let jwt = Jwt::new(vector.method, None, Some(&vector.private[0])).unwrap();
    let token = &vector.token;
    for length in 0..token.len() {
        assert_eq!(
            jwt.verify(&token.as_bytes()[..length], NOW),
            None,
            "{length}"
        );
    }
    let none = URL_SAFE_NO_PAD.encode(r#"{"alg":"none","typ":"JWT"}"#);
    let claims = token.split('.').nth(1).unwrap();
    for forged in [
        format!("{none}.{claims}."),
        format!("{none}.{claims}"),
        format!("{token}."),
    ] {
        assert_eq!(jwt.verify(forged.as_bytes(), NOW), None, "{forged}");
    }
    let long = format!("{token}{}", "A".repeat(BYTES_MAX));
    assert_eq!(jwt.verify(long.as_bytes(), NOW), None);
}

/// Signs any claims.
fn signed(claims: &Value) -> Option<VerifiedJwt> {
    let secret = b"secret";
    let jwt = Jwt::new(JwtMethod::Hs256, None, Some(secret)).unwrap();
    let header = URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256"}"#);
    let message = format!("{header}.{}", URL_SAFE_NO_PAD.encode(claims.to_string()));
    let key = jwt.private.as_ref().unwrap();
    let signature = key.sign(JwtMethod::Hs256, message.as_bytes()).unwrap();
    let token = format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature));
    jwt.verify(token.as_bytes(), NOW)
}

#[test]
fn claims_of_the_wrong_kind_are_refused() {
    let good = json!({"username": "u", "revision": 1});
    assert_eq!(signed(&good).unwrap().ends, None);
    for bad in [
        json!({"revision": 1}),
        json!({"username": "u"}),
        json!({"username": 1, "revision": 1}),
        json!({"username": "u", "revision": "1"}),
        json!({"username": "u", "revision": 1, "exp": "never"}),
        json!({"username": "u", "revision": 1, "exp": NOW}),
        json!({"username": "u", "revision": 1, "nbf": NOW + 1}),
        json!({"username": "u", "revision": 1, "iat": []}),
        json!([]),
        json!("u"),
    ] {
        assert_eq!(signed(&bad), None, "{bad}");
    }
}

#[test]
fn keys_that_are_missing_or_do_not_fit_are_refused() {
    let vectors = vectors();
    let (rsa, other) = (&vectors[0], &vectors[6]);
    let new = |method, public, private| Jwt::new(method, public, private).unwrap_err();
    assert_eq!(new(JwtMethod::Rs256, None, None), JwtError::MissingKey);
    assert_eq!(
        new(JwtMethod::Rs256, Some(b""), Some(b"")),
        JwtError::MissingKey
    );
    assert_eq!(
        new(JwtMethod::Hs256, Some(b"x"), None),
        JwtError::MissingKey
    );
    assert_eq!(new(JwtMethod::Rs256, None, Some(b"x")), JwtError::NotPem);
    let method = JwtMethod::Rs256;
    let wrong = new(method, None, Some(&other.private[0]));
    assert_eq!(wrong, JwtError::PrivateKey { method });
    let wrong = new(method, Some(&other.public[0]), None);
    assert_eq!(wrong, JwtError::PublicKey { method });
    let method = JwtMethod::Es256;
    let wrong = new(method, Some(&vectors[7].public[0]), None);
    assert_eq!(wrong, JwtError::PublicKey { method });
    let _ = rsa;
}

#[test]
fn options_are_read_as_etcd_reads_them() {
    let parse = |options: &[(&str, &str)]| JwtOptions::parse(options);
    let all = [
        ("sign-method", "RS256"),
        ("pub-key", "a"),
        ("priv-key", "b"),
        ("ttl", "1m"),
        ("x", "y"),
    ];
    let parsed = parse(&all).unwrap();
    assert_eq!(parsed.method, JwtMethod::Rs256);
    assert_eq!(parsed.unknown, ["x"]);
    assert_eq!(
        (parsed.public_key.as_deref(), parsed.ttl.as_deref()),
        (Some("a"), Some("1m"))
    );
    assert_eq!(parse(&[]), None);
    assert_eq!(parse(&[("sign-method", "none")]), None);
    assert_eq!(parse(&[("sign-method", "rs256")]), None);
}

#[test]
fn every_token_is_signed_with_a_key_that_begins_with_its_smaller_prime() {
    let key = include_bytes!("../../../rsa-key/tests/smaller_prime_first.key");
    let jwt = Jwt::new(JwtMethod::Rs256, None, Some(key)).unwrap();
    for revision in 0..300 {
        let token = jwt.sign("alice", revision, ENDS).unwrap();
        assert_eq!(jwt.verify(token.as_bytes(), NOW), alice(revision, ENDS));
    }
}
