//! The files of the dashboard, inside the executable.

/// The page of a run, and that with the list of the runs in a folder.
pub(crate) const RUN_PAGE: &str = "/run.html";
pub(crate) const LIST_PAGE: &str = "/list.html";

/// Path, content type and content.
pub(crate) const FILES: [(&str, &str, &str); 17] = [
    (RUN_PAGE, "text/html; charset=utf-8", include_str!("../web/run.html")),
    (LIST_PAGE, "text/html; charset=utf-8", include_str!("../web/list.html")),
    ("/app.css", "text/css; charset=utf-8", include_str!("../web/app.css")),
    ("/app.js", "text/javascript; charset=utf-8", include_str!("../web/app.js")),
    ("/store.js", "text/javascript; charset=utf-8", include_str!("../web/store.js")),
    ("/dom.js", "text/javascript; charset=utf-8", include_str!("../web/dom.js")),
    ("/chart.js", "text/javascript; charset=utf-8", include_str!("../web/chart.js")),
    ("/overview.js", "text/javascript; charset=utf-8", include_str!("../web/overview.js")),
    ("/tables.js", "text/javascript; charset=utf-8", include_str!("../web/tables.js")),
    ("/variables.js", "text/javascript; charset=utf-8", include_str!("../web/variables.js")),
    ("/stop.js", "text/javascript; charset=utf-8", include_str!("../web/stop.js")),
    ("/theme.js", "text/javascript; charset=utf-8", include_str!("../web/theme.js")),
    ("/list.js", "text/javascript; charset=utf-8", include_str!("../web/list.js")),
    ("/curves.js", "text/javascript; charset=utf-8", include_str!("../web/curves.js")),
    ("/compare.js", "text/javascript; charset=utf-8", include_str!("../web/compare.js")),
    ("/data.js", "text/javascript; charset=utf-8", include_str!("../web/data.js")),
    ("/logs.js", "text/javascript; charset=utf-8", include_str!("../web/logs.js")),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dashboard_is_small_and_makes_no_requests_to_other_hosts() {
        let bytes: usize = FILES.iter().map(|(_, _, text)| text.len()).sum();
        assert!(bytes < 300 << 10, "{bytes} bytes");
        for (path, _, text) in FILES {
            let outside = text.match_indices("http").map(|(at, _)| &text[at..]).find(|rest| {
                (rest.starts_with("http://") || rest.starts_with("https://"))
                    && !rest.starts_with("http://www.w3.org/2000/svg")
            });
            assert_eq!(outside.map(|rest| rest.chars().take(40).collect::<String>()), None, "{path}");
            assert!(!text.contains("innerHTML"), "{path}: text of a run must never become markup");
        }
    }
}
