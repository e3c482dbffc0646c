/// The candidate that `name` most resembles, if one is close enough to be a slip of the pen.
pub(crate) fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let scored = candidates.into_iter().map(|candidate| {
        let close = strsim::jaro_winkler(&name.to_lowercase(), candidate);
        (close, candidate)
    });
    scored
        .filter(|(close, _)| *close >= 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn only_a_near_name_is_suggested() {
        let keys = ["enabled", "workspace_root", "max_output_bytes"];
        assert_eq!(nearest("enable", keys), Some("enabled"));
        assert_eq!(nearest("Workspace-Root", keys), Some("workspace_root"));
        assert_eq!(nearest("max_output", keys), Some("max_output_bytes"));
        assert_eq!(nearest("zzz", keys), None);
        assert_eq!(nearest("x", []), None);
    }
}
