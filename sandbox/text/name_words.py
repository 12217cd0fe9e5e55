"""Words that decide what is a name."""

from sandbox.text.word_set import word_set

CONNECTORS = word_set(
    "of de da do das dos del della di du la le van von der den bin ibn al el ul y"
)
"""May stand inside a name: Gulf of Guinea, Rio de Janeiro."""

HONORIFICS = word_set(
    """
    Admiral Ambassador Captain Chairman Chairwoman Chancellor Chief Colonel Commissioner Congressman
    Director Dr Emperor Executive Founder General Governor Judge Justice King Lady Lieutenant Lord
    Lt Madam Major Mayor Minister Mr Mrs Ms President Presidents Prime Prince Princess Prof
    Professor Queen Secretary Senator Sergeant Sheikh Sir Sultan Vice
    """
)
"""Stand before a person's name and are no part of it."""

CALENDAR = word_set(
    """
    January February March April May June July August September October November December Jan Feb
    Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec Monday Tuesday Wednesday Thursday Friday Saturday
    Sunday Spring Summer Autumn Fall Winter Christmas Easter Q1 Q2 Q3 Q4 H1 H2 FY
    """
)

NOT_NAMES = word_set(
    """
    GDP GNP GNI PPP CPI CO2 LNG LPG GW GWh MW MWh TWh kWh USD EUR GBP CEO CFO CTO COO UTC GMT EST ID
    IT TV AM FM PM OK HIV AIDS AI ML R&D IPO VAT NA North South East West Northern Southern Eastern
    Western Central Upper Lower Company Group Government Parliament Congress Constitution Republic
    Kingdom State States City Army Navy Chapter Section Table Figure Source Sources Published Note
    Notes Findings Objective According Nothing Found Yes No English French Net Total Average Annual
    Real Gross World Assembly Church Corps Inc Ltd PLC Leader Military Nation Peace People Solidarity Unity
    """
)
"""Capitalised alone, they name nothing."""

GENERIC_BODY = word_set(
    """
    Agency Air Armed Army Assembly Authority Bank Board Border Bureau Central Civil Coalition Coast
    Command Commission Council Court Customs Defense Defence Gendarmerie Federal Force Forces Guard
    Guards Ground High Interior
    Internal Department Emergency Land Marine Unity Maritime Military Ministry National Naval Navy Police Public Republican
    Security Service Services State Supreme
    """
)
"""A body named with these words alone could be that of any country."""

ADJECTIVES = word_set(
    """
    African American Arab Arabic Armenian Asian British Canadian Catholic Christian Chinese Czech
    Danish Dutch English European Finnish French German Greek Hindu Indian Islamic Israeli Italian
    Japanese Jewish Korean Mexican Muslim Norwegian Ottoman Polish Portuguese Protestant Roman
    Russian Soviet Spanish Sunni Shia Swedish Swiss Thai Turkish Iraqi Pakistani Saudi Bangladeshi
    Kuwaiti Yemeni Omani Qatari Emirati Africans Americans Europeans Spaniards Arabs Germans Jews
    Muslims Christians Turks Kurds
    """
)
ADJECTIVE_ENDINGS = ("ian", "ians", "ean", "eans", "ese", "ish")


DIRECTIONS = word_set("Northern Southern Eastern Western")


def is_adjective(word: str) -> bool:
    """Belongs to a people or place and names neither: Ghanaian, Portuguese."""
    return word in ADJECTIVES or (len(word) > 5 and word.endswith(ADJECTIVE_ENDINGS))


NAME_HEADS = word_set(
    """
    Academy Agency Alliance Association Bank Basin Bay Board Bureau Cape Chamber City Coast
    Commission Committee Commonwealth Community Council Court Declaration Democratic Department
    Duchy Emirate Empire Federation Fund Gulf House Institute Institution Isle Islands Isthmus
    Kingdom Law League Ministry Mount Museum Organisation Organization Peninsula Port
    Principality Province Region Republic Sea Society State States Straits Strait Sultanate
    Territory Treaty Union University Valley
    """
)
"""Begin names of the form `Bank of Ghana`."""

PAIRED_WORDS = word_set(
    "Cultural Economic Educational Foreign Industrial Legal Military Monetary Political Public Scientific Social "
    "Technical Trade"
)
"""Before an `and` inside a name: Economic and Monetary Union."""

ACTOR_VERBS = word_set(
    """
    acquired acquires agreed agrees aims announced announces bought builds built buys closed closes
    completed delivers employs expects exports has invested invests is launched launches makes mines
    moved offers opened opens operates opted owns plans produced produces raised raises received
    refines reported reports runs said says sells shipped ships signed signs sold started starts
    supplied supplies took uses was will won
    """
)
"""What follows a name at the start of a sentence that nothing else marks as one."""
