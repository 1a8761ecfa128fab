//! Which requests are allowed.

use axum::http::{HeaderMap, StatusCode, Uri, header};
use std::net::SocketAddr;
use subtle::ConstantTimeEq;

/// Checks requests.
pub(crate) struct Gate {
    address: SocketAddr,
    token: String,
}

impl Gate {
    pub(crate) fn new(address: SocketAddr, token: &str) -> Self {
        Self { address, token: token.to_owned() }
    }

    /// Checks that a request was meant for this server: a page of another host may have tricked a browser into sending it.
    pub(crate) fn knows_host(&self, headers: &HeaderMap) -> Result<(), (StatusCode, &'static str)> {
        let text = |name| headers.get(name).and_then(|value: &axum::http::HeaderValue| value.to_str().ok());
        let host = text(header::HOST).unwrap_or_default();
        if !self.is_own(host) {
            return Err((StatusCode::FORBIDDEN, "wrong host; open the URL that was printed\n"));
        }
        match headers.get(header::ORIGIN) {
            None => Ok(()),
            Some(_) if text(header::ORIGIN).and_then(|one| one.strip_prefix("http://")) == Some(host) => Ok(()),
            Some(_) => Err((StatusCode::FORBIDDEN, "requests from other pages are not allowed\n")),
        }
    }

    fn is_own(&self, host: &str) -> bool {
        let port = self.address.port();
        if !self.address.ip().is_loopback() && !self.address.ip().is_unspecified() {
            return host == self.address.to_string();
        }
        // A server on all interfaces does not know the names of its machine; the token still protects it.
        self.address.ip().is_unspecified()
            || ["127.0.0.1", "localhost", "[::1]"].iter().any(|name| host == format!("{name}:{port}"))
    }

    /// Checks that a request has the token, as `t` in its URL or as a bearer token.
    pub(crate) fn has_token(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), (StatusCode, &'static str)> {
        let query = uri.query().into_iter().flat_map(|query| query.split('&')).find_map(|pair| pair.strip_prefix("t="));
        let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let given = query.or_else(|| bearer.and_then(|value| value.strip_prefix("Bearer ")));
        if given.is_some_and(|given| bool::from(given.as_bytes().ct_eq(self.token.as_bytes()))) {
            return Ok(());
        }
        Err((StatusCode::UNAUTHORIZED, "the token is missing or wrong; open the URL that was printed\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn headers(list: &[(header::HeaderName, &'static str)]) -> HeaderMap {
        list.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn other_hosts_and_other_pages_are_refused() {
        let gate = Gate::new("127.0.0.1:80".parse().unwrap(), "secret");
        for (host, origin, good) in [
            ("127.0.0.1:80", None, true),
            ("localhost:80", Some("http://localhost:80"), true),
            ("localhost:80", Some("http://127.0.0.1:80"), false),
            ("127.0.0.1:81", None, false),
            ("evil.example:80", None, false),
            ("127.0.0.1:80", Some("http://evil.example"), false),
            ("127.0.0.1:80", Some("null"), false),
        ] {
            let mut list = vec![(header::HOST, host)];
            list.extend(origin.map(|origin| (header::ORIGIN, origin)));
            assert_eq!(gate.knows_host(&headers(&list)).is_ok(), good, "{host} {origin:?}");
        }
        assert!(gate.knows_host(&HeaderMap::new()).is_err());
    }

    #[test]
    fn only_the_complete_token_is_accepted() {
        let gate = Gate::new("127.0.0.1:80".parse().unwrap(), "secret");
        let uri = |text: &str| text.parse::<Uri>().unwrap();
        assert!(gate.has_token(&uri("/api/state?t=secret"), &HeaderMap::new()).is_ok());
        assert!(gate.has_token(&uri("/x?a=1&t=secret&b=2"), &HeaderMap::new()).is_ok());
        assert!(gate.has_token(&uri("/x"), &headers(&[(header::AUTHORIZATION, "Bearer secret")])).is_ok());
        for bad in ["/x", "/x?t=", "/x?t=secre", "/x?t=secrets", "/x?T=secret"] {
            assert!(gate.has_token(&uri(bad), &HeaderMap::new()).is_err(), "{bad}");
        }
    }
}
