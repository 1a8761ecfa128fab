//! Synthetic people with the columns of the census. Whole numbers only, so that they are the same on every machine.

use crate::{Batch, Column};
use phalanx_base::{Result, SplitMix, mix};

/// The columns of the published files, which have no header.
pub(super) const NAMES: [&str; 15] = [
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education_num",
    "marital_status",
    "occupation",
    "relationship",
    "race",
    "gender",
    "capital_gain",
    "capital_loss",
    "hours_per_week",
    "native_country",
    "income",
];

const WORKCLASSES: [&str; 6] = ["Private", "Self-emp-inc", "Self-emp-not-inc", "State-gov", "Federal-gov", "?"];
/// By `education_num`, from 1.
const EDUCATIONS: [&str; 16] = [
    "Preschool",
    "1st-4th",
    "5th-6th",
    "7th-8th",
    "9th",
    "10th",
    "11th",
    "12th",
    "HS-grad",
    "Some-college",
    "Assoc-voc",
    "Assoc-acdm",
    "Bachelors",
    "Masters",
    "Prof-school",
    "Doctorate",
];
const UNMARRIED: [&str; 4] = ["Never-married", "Divorced", "Separated", "Widowed"];
/// From the best paid to the worst paid.
const OCCUPATIONS: [&str; 14] = [
    "Exec-managerial",
    "Prof-specialty",
    "Armed-Forces",
    "Protective-serv",
    "Tech-support",
    "Sales",
    "Craft-repair",
    "Transport-moving",
    "Adm-clerical",
    "Machine-op-inspct",
    "Farming-fishing",
    "Handlers-cleaners",
    "Other-service",
    "Priv-house-serv",
];
const RACES: [&str; 5] = ["White", "Black", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other"];
const COUNTRIES: [&str; 8] =
    ["United-States", "Mexico", "Philippines", "Germany", "Canada", "Puerto-Rico", "India", "Cuba"];

/// What is known of a person: a number for each column of numbers, and a word for each of words.
struct Person {
    age: i64,
    education: usize,
    married: bool,
    occupation: usize,
    hours: i64,
    gain: i64,
    loss: i64,
}

impl Person {
    fn new(random: &mut SplitMix) -> Self {
        let mut below = |bound: usize| random.below(bound) as i64;
        Self {
            age: 17 + below(35) + below(39),
            education: (3 + below(8) + below(6)) as usize,
            married: below(2) == 0,
            occupation: below(OCCUPATIONS.len()) as usize,
            hours: 20 + below(21) + below(21),
            gain: if below(12) == 0 { 1000 + below(20_000) } else { 0 },
            loss: if below(20) == 0 { 1000 + below(1500) } else { 0 },
        }
    }

    /// Returns a score that grows with the income and is above 0 for about a quarter of all people.
    fn score(&self) -> i64 {
        let capital = 300 * i64::from(self.gain > 5000) + 80 * i64::from(self.loss > 0);
        let career = 5 * (self.age.min(55) - 42) + 35 * (self.education as i64 - 9) - 15 * (self.occupation as i64 - 6);
        let home = if self.married { 120 } else { -150 };
        career + home + 4 * (self.hours - 40) + capital - 180
    }
}

/// Returns people `first` to `first + count` of a seed, each a function of both.
pub(super) fn people(seed: u64, first: u64, count: u64) -> Result<Batch> {
    let mut words: [Vec<&str>; 9] = Default::default();
    let mut numbers: [Vec<i64>; 6] = Default::default();
    for row in first..first + count {
        let mut random = SplitMix::new(mix(mix(seed).wrapping_add(row)));
        let person = Person::new(&mut random);
        let mut below = |bound: usize| random.below(bound);
        let woman = below(3) == 0;
        let noise = (below(200) + below(200)) as i64 - 199;
        let of_row = [
            WORKCLASSES[below(2) * below(WORKCLASSES.len())],
            EDUCATIONS[person.education],
            if person.married { "Married-civ-spouse" } else { UNMARRIED[below(4)] },
            OCCUPATIONS[person.occupation],
            match (person.married, woman) {
                (true, true) => "Wife",
                (true, false) => "Husband",
                _ => ["Not-in-family", "Own-child", "Unmarried"][below(3)],
            },
            RACES[below(2) * below(RACES.len())],
            if woman { "Female" } else { "Male" },
            COUNTRIES[below(2) * below(COUNTRIES.len())],
            if person.score() + noise > 0 { ">50K" } else { "<=50K" },
        ];
        words.iter_mut().zip(of_row).for_each(|(column, word)| column.push(word));
        let weight = 20_000 + below(400_000) as i64;
        let of_row = [person.age, weight, person.education as i64 + 1, person.gain, person.loss, person.hours];
        numbers.iter_mut().zip(of_row).for_each(|(column, number)| column.push(number));
    }
    let [age, weight, education_num, gain, loss, hours] = numbers.map(Column::i64);
    let [work, education, marriage, occupation, relationship, race, gender, country, income] = words.map(Column::text);
    let columns = [
        age,
        work,
        weight,
        education,
        education_num,
        marriage,
        occupation,
        relationship,
        race,
        gender,
        gain,
        loss,
        hours,
        country,
        income,
    ];
    Batch::new(NAMES.into_iter().zip(columns))?.with_label("income")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn about_a_quarter_earns_more_and_the_score_tells_most_of_them() {
        let batch = people(1, 1000, 5000).unwrap();
        let rich: Vec<bool> = batch.bytes("income").unwrap().iter().map(|income| income == b">50K").collect();
        let share = rich.iter().filter(|&&rich| rich).count();
        assert!((1000..1600).contains(&share), "{share} of 5000");
        let right = (1000..6000).zip(&rich).filter(|(row, rich)| {
            let mut random = SplitMix::new(mix(mix(1).wrapping_add(*row)));
            (Person::new(&mut random).score() > 0) == **rich
        });
        let right = right.count();
        assert!((4200..4800).contains(&right), "{right} of 5000");
        assert_eq!(people(1, 1700, 3).unwrap(), batch.slice(700..703));
    }
}
