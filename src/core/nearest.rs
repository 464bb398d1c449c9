//! The known word that a mistyped one probably meant. Used by messages only; nothing is ever decided by it.

/// Words longer than this are not typing mistakes, and the distance costs the product of the lengths.
const MAX_WORD: usize = 64;

/// The nearest of `known` to `word`, when the two are close enough for one to be a slip of the other: at most a third
/// of the letters differ (at least one may), upper and lower case not counted. Of equally near words, the first.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = |text: &str| text.chars().flat_map(char::to_lowercase).collect::<Vec<_>>();
    if word.is_empty() || word.chars().count() > MAX_WORD {
        return None;
    }
    let typed = lower(word);
    let allowed = (typed.len() / 3).max(1);
    known
        .into_iter()
        .filter(|known| known.chars().count() <= MAX_WORD)
        .map(|known| (distance(&typed, &lower(known)), known))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

/// Insertions, deletions, substitutions and swaps of neighbours (optimal string alignment).
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before = vec![0; b.len() + 1];
    let mut last = (0..=b.len()).collect::<Vec<_>>();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let mut best = (last[j] + usize::from(x != y)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && x == &b[j - 1] && &a[i - 1] == y {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("cpuu", Some("cpu"))]
    #[case("cup", Some("cpu"))]
    #[case("mem", None)]
    #[case("memroy", Some("memory"))]
    #[case("CPU", Some("cpu"))]
    #[case("x", None)]
    #[case("", None)]
    fn resource_names(#[case] word: &str, #[case] want: Option<&str>) {
        assert_eq!(nearest(word, ["cpu", "memory"]), want);
    }

    proptest! {
        #[test]
        fn a_known_word_is_nearest_to_itself(word in "[a-z]{1,12}", other in "[a-z]{1,12}") {
            prop_assert_eq!(nearest(&word, [other.as_str(), word.as_str()]), Some(word.as_str()));
        }

        #[test]
        fn any_words_are_answered(word in ".{0,80}", known in ".{0,80}") {
            let _ = nearest(&word, [known.as_str()]);
        }
    }
}
