"""A small corpus of invented texts on battery makers."""

from datetime import date

from sandbox.corpus import Corpus, Document, LoadReport

MISSION = "Find short-term opportunities among European battery makers"

DOCUMENTS = (
    Document(
        "Northvale Cells: its second plant is delayed",
        "Northvale Cells, a battery maker based in Umeå, said on Monday that it would delay its second plant in Hamburg.\n"
        "The company employs 3,200 people. Revenue fell 12% to $1.1 billion in 2025.\n"
        "Chief Executive Anna Lindqvist said the market for electric cars in Europe had weakened.\n"
        "Northvale Cells buys its lithium from Atacama Minerals under a contract that ends in 2028.\n"
        "Capacity 2025: 12 GWh\nCapacity 2024: 9 GWh\nCustomers: Volta Motors, Helios Trucks, Baltic Rail\n"
        "Suppliers: Atacama Minerals, Kivu Cobalt",
        "https://press.example/northvale",
        date(2026, 9, 14),
    ),
    Document(
        "Kestrel Power: company profile",
        "Kestrel Power is a battery maker in Bilbao that supplies Volta Motors and Helios Trucks.\n"
        "Kestrel Power acquired the recycling firm Circa Metals in March for $240 million.\n"
        "The chairman, Iñaki Etxebarria, wants to raise output.\n"
        "Capacity 2025: 20 GWh\nCapacity 2024: 14 GWh\nCustomers: Volta Motors, Helios Trucks\n"
        "Suppliers: Atacama Minerals, Kivu Cobalt",
        "https://press.example/kestrel",
        date(2026, 3, 2),
    ),
    Document(
        "European battery makers face falling prices",
        "Prices of battery cells fell 18% in 2026, according to the Rhine Institute. However, demand held up.\n"
        "Dongfang Battery of Shenzhen opened a plant in Debrecen with a capacity of 30 GWh.\n"
        "Volta Motors signed a contract with Dongfang Battery in June.",
        "https://press.example/prices",
        date(2026, 10, 2),
    ),
)


def corpus() -> Corpus:
    return Corpus("makers", DOCUMENTS, LoadReport(1))
