//! Socket and channel out of the names that boards give their memory slots. There is no
//! standard for them; what is not one of the forms below stays unknown.
//!
//! Forms, from listings of dmidecode: `P1-DIMMA1`, `CPU1_DIMM_A1`, `DIMM_P0_A0`, `PROC 1 DIMM 3`,
//! `P0_Node0_Channel0_Dimm0`, `P0 CHANNEL A`, `Controller0-ChannelA-DIMM0`, `DIMM_A1`; and `A1` to
//! `B12`, where the letter is the socket if there are as many letters as sockets.

use nearfar_machine::topology::Slot;

/// Fills in what the names tell. `packages`: how many the kernel sees.
pub(super) fn read(slots: &mut [Slot], packages: Option<usize>) {
    for slot in &mut *slots {
        let names = [&slot.locator, &slot.bank].map(|name| words(name.as_deref().unwrap_or("")));
        slot.socket_by_locator = names.iter().find_map(|words| socket(words));
        slot.channel_by_locator = names.iter().find_map(|words| channel(words));
    }
    let letter = |slot: &Slot| match words(slot.locator.as_deref()?).as_slice() {
        [letter, number] if letter.len() == 1 && is_number(number) => Some(letter.clone()),
        _ => None,
    };
    let Some(letters) = slots.iter().map(letter).collect::<Option<Vec<String>>>() else { return };
    let mut distinct = letters.clone();
    distinct.sort();
    distinct.dedup();
    if distinct.len() > 1 && Some(distinct.len()) == packages {
        for (slot, letter) in slots.iter_mut().zip(letters) {
            slot.socket_by_locator = Some(letter);
        }
    }
}

/// `P1-DIMMA1` → `P`, `1`, `DIMMA`, `1`.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut last = ' ';
    for c in name.to_uppercase().chars() {
        let kind = |c: char| (c.is_ascii_digit(), c.is_alphanumeric());
        match words.last_mut() {
            Some(word) if kind(last) == kind(c) && c.is_alphanumeric() => word.push(c),
            _ if c.is_alphanumeric() => words.push(c.into()),
            _ => {}
        }
        last = c;
    }
    words
}

fn is_number(word: &str) -> bool {
    word.bytes().all(|b| b.is_ascii_digit())
}

/// The number after one of these words.
fn numbered(words: &[String], names: &[&str]) -> Option<String> {
    let pair = words.windows(2).find(|p| names.contains(&p[0].as_str()) && is_number(&p[1]))?;
    Some(pair.concat())
}

fn socket(words: &[String]) -> Option<String> {
    // A slot may be called P1 after O1, but is not a socket then.
    let p = || numbered(words.split_last_chunk::<1>()?.0, &["P"]);
    numbered(words, &["CPU", "PROC", "SOCKET"]).or_else(p)
}

/// With the controller or die that counts its own channels.
fn channel(words: &[String]) -> Option<String> {
    let within = numbered(words, &["CONTROLLER", "NODE", "MC"]).map_or(String::new(), |w| w + " ");
    let after = words.iter().enumerate().find_map(|(i, word)| match word.strip_prefix("CHANNEL")? {
        "" => words.get(i + 1).cloned(),
        letter => Some(letter.to_owned()),
    });
    // A letter before the slot's number, but not the P of a processor.
    let letter = || {
        let [.., word, number] = words else { return None };
        let letter = word.strip_prefix("DIMM").unwrap_or(word);
        let told = words.len() > 2 || word.len() > 1;
        (told && letter.len() == 1 && letter != "P" && is_number(number)).then(|| letter.to_owned())
    };
    Some(within + &after.or_else(letter)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(names: &[(&str, &str)], packages: usize) -> Vec<String> {
        let name = |text: &str| Some(text.to_owned()).filter(|t| !t.is_empty());
        let mut slots: Vec<Slot> = names
            .iter()
            .map(|(locator, bank)| Slot {
                locator: name(locator),
                bank: name(bank),
                socket_by_locator: None,
                channel_by_locator: None,
                module: None,
            })
            .collect();
        read(&mut slots, Some(packages));
        let word = |w: &Option<String>| w.clone().unwrap_or("?".to_owned());
        slots.iter().map(|s| [&s.socket_by_locator, &s.channel_by_locator].map(word).join("/")).collect()
    }

    #[test]
    fn names_of_slots_tell_socket_and_channel_or_nothing() {
        for (locator, bank, expected) in [
            ("P1-DIMMA1", "P0_Node0_Channel0_Dimm0", "P1/A"),
            ("CPU1_DIMM_C2", "NODE 0", "CPU1/C"),
            ("DIMM_P0_A0", "BANK 0", "P0/A"),
            ("PROC 1 DIMM 3", "", "PROC1/?"),
            ("DIMM 0", "P0 CHANNEL A", "P0/A"),
            ("DIMM 3", "P1_Node2_Channel1_Dimm0", "P1/NODE2 1"),
            ("Controller0-ChannelA-DIMM0", "BANK 0", "?/CONTROLLER0 A"),
            ("DIMM_B2", "", "?/B"),
            ("DIMM 0", "", "?/?"),
            ("Slot P1", "", "?/?"),
            ("", "", "?/?"),
        ] {
            assert_eq!(told(&[(locator, bank)], 2), [expected], "{locator} {bank}");
        }
    }

    #[test]
    fn letters_alone_are_sockets_only_where_there_are_as_many() {
        let names = [("A1", ""), ("A2", ""), ("B1", ""), ("B2", "")];
        assert_eq!(told(&names, 2), ["A/?", "A/?", "B/?", "B/?"]);
        assert_eq!(told(&names, 1), ["?/?"; 4]);
    }
}
