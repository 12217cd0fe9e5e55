"""Rules for English text: words, sentences, names, labelled facts, figures. The same for every corpus."""
