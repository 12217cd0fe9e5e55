"""Reading English: words, sentences, names, labelled facts, figures. Plain rules, the same for every corpus."""
